import { once } from 'node:events'
import net, { type AddressInfo } from 'node:net'

/**
 * What the proxy does with the bytes that pass:
 * - `pass`: hands them on;
 * - `refuse`: ends new connections at once and resets the open ones;
 * - `stall`: keeps connections open, but moves nothing;
 * - `tear requests`, `tear answers`: hands on half of the next piece in that direction, then resets the connection.
 */
export type TcpFault = 'pass' | 'refuse' | 'stall' | 'tear requests' | 'tear answers'

export interface TcpFaultProxy {
  port: number
  /** Connections that were reset or torn so far. */
  broken: number
  set (fault: TcpFault): void
  close (): Promise<void>
}

interface Pair {
  client: net.Socket
  server: net.Socket
}

/**
 * Puts a proxy in front of a real server, so that the network between the two can be broken.
 *
 * @param target.host  Default 127.0.0.1.
 * @param listenPort  On 127.0.0.1; default: a free one.
 */
export async function startTcpFaultProxy (
  target: { host?: string, port: number }, listenPort = 0
): Promise<TcpFaultProxy> {
  let fault: TcpFault = 'pass'
  const pairs = new Set<Pair>()

  const proxy = net.createServer((client) => {
    if (fault === 'refuse') {
      reset(client)
      handle.broken++
      return
    }
    const server = net.connect(target.port, target.host ?? '127.0.0.1')
    const pair = { client, server }
    pairs.add(pair)
    for (const socket of [client, server]) {
      socket.setNoDelay(true)
      // Errors are followed by `close`.
      socket.on('error', () => {})
      socket.on('close', () => end(pair))
    }
    client.on('data', (chunk: Buffer) => {
      if (fault === 'tear requests') tear(pair, server, chunk)
      else forward(client, server, chunk)
    })
    server.on('data', (chunk: Buffer) => {
      if (fault === 'tear answers') tear(pair, client, chunk)
      else forward(server, client, chunk)
    })
    if (fault === 'stall') pause(pair)
  })
  const handle: TcpFaultProxy = { port: 0, broken: 0, set, close }
  proxy.listen(listenPort, '127.0.0.1')
  await once(proxy, 'listening')
  handle.port = (proxy.address() as AddressInfo).port
  return handle

  function end (pair: Pair): void {
    pairs.delete(pair)
    pair.client.destroy()
    pair.server.destroy()
  }

  /** Small pieces are written to the kernel at once, so half of the piece is on its way before the reset. */
  function tear (pair: Pair, to: net.Socket, chunk: Buffer): void {
    if (!pairs.delete(pair)) return
    handle.broken++
    to.write(chunk.subarray(0, chunk.length >> 1), () => {
      reset(to)
      end(pair)
    })
  }

  function forward (from: net.Socket, to: net.Socket, chunk: Buffer): void {
    if (to.destroyed || to.write(chunk)) return
    from.pause()
    to.once('drain', () => { if (fault !== 'stall') from.resume() })
  }

  function set (next: TcpFault): void {
    fault = next
    for (const pair of pairs) {
      if (next === 'stall') {
        pause(pair)
      } else if (next === 'refuse') {
        handle.broken++
        reset(pair.client)
      } else {
        pair.client.resume()
        pair.server.resume()
      }
    }
  }

  async function close (): Promise<void> {
    for (const pair of pairs) end(pair)
    proxy.close()
    await once(proxy, 'close')
  }
}

function pause ({ client, server }: Pair): void {
  client.pause()
  server.pause()
}

/** A socket that is already closed has nothing to reset. */
function reset (socket: net.Socket): void {
  if (!socket.destroyed) socket.resetAndDestroy()
}
