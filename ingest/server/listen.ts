import net, { type ListenOptions } from 'node:net'
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance, FastifyListenOptions } from 'fastify'

/** A turn of the event loop that takes less had nothing to do, in milliseconds. */
const QUIET_TURN_MS = 0.1
/** How long a process under load waits for such a turn, in milliseconds; none of some hundred took over 30 turns. */
const MAX_WAIT_MS = 200

/**
 * Opens the port. Two processes may share it, so that one can be replaced without a refused connection.
 *
 * @returns the port; the one that the system chose when 0 was asked for.
 */
export async function listen (app: FastifyInstance, http: { host: string, port: number }): Promise<number> {
  const options: FastifyListenOptions & ListenOptions = { ...http, reusePort: true }
  await app.listen(options)
  const address = app.server.address()
  return typeof address === 'object' && address !== null ? address.port : http.port
}

/**
 * Ends an app without failing a request: no new connections, a time in which each answer asks its client to connect
 * again (the app sets `connection: close` once it does not listen), then the idle connections, then the busy ones.
 *
 * Closing idle connections at once, as `http.Server` does, would break those on which a request is just arriving.
 *
 * @param graceMs  How long connections may stay idle. Busy clients are gone after one request.
 */
export async function closeGracefully (app: FastifyInstance, graceMs: number): Promise<void> {
  const { server } = app
  await waitForQuietTurn()
  const stopped = Promise.withResolvers<void>()
  const closeListener = net.Server.prototype.close as (this: net.Server, done: () => void) => net.Server
  closeListener.call(server, () => stopped.resolve())
  await Promise.race([stopped.promise, delay(graceMs)])
  server.closeIdleConnections()
  await stopped.promise
  await app.close()
}

/**
 * A listener that closes resets what it has not accepted yet: what came since it last accepted, earlier in this turn of
 * the event loop. In a turn without work that is next to nothing; only the kernel can let another listener take it over
 * (`net.ipv4.tcp_migrate_req`, docs/operations.md).
 */
async function waitForQuietTurn (): Promise<void> {
  const giveUpAt = performance.now() + MAX_WAIT_MS
  // The turn in which we were asked to end is not seen from its beginning.
  await nextTurn()
  for (let now = performance.now(), began = 0; now < giveUpAt; now = performance.now()) {
    if (now - began < QUIET_TURN_MS) return
    began = now
    await nextTurn()
  }
}
