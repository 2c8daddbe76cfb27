import net from 'node:net'
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises'
import { type FastifyInstance } from 'fastify'

/**
 * Ends an app without failing a request: no new connections, a time in which each answer asks its client to connect
 * anew (the app sets `connection: close` by then), then the idle connections, then those that were busy.
 *
 * Closing idle connections at once, as `http.Server` does, would cut those on which a request is just arriving.
 *
 * @param graceMs  How long connections may stay idle. Busy clients are gone after one request.
 */
export async function closeGently (app: FastifyInstance, graceMs: number): Promise<void> {
  const { server } = app
  // A listener that closes resets what it has not accepted yet. Accepting comes just before this in a turn of the event
  // loop; the turn in which we were asked to end may have begun long before, on a busy machine.
  await nextTurn()
  await nextTurn()
  const stopped = Promise.withResolvers<void>()
  const closeListener = net.Server.prototype.close as (this: net.Server, done: () => void) => net.Server
  closeListener.call(server, () => stopped.resolve())
  await Promise.race([stopped.promise, delay(graceMs)])
  server.closeIdleConnections()
  await stopped.promise
  await app.close()
}
