import { once } from 'node:events'
import net, { type AddressInfo } from 'node:net'

/**
 * What the proxy does with the bytes that pass:
 * - `pass`: hands them on;
 * - `refuse`: ends new connections at once and resets the open ones;
 * - `stall`: keeps connections open, but moves nothing;
 * - `tear`: hands on half of each answer of the server, then resets the connection.
 */
export type TcpFault = 'pass' | 'refuse' | 'stall' | 'tear'

export interface TcpFaultProxy {
  port: number
  set (fault: TcpFault): void
  close (): Promise<void>
}

/** Puts a proxy in front of a real server, so that the network between the two can be broken. */
export async function startTcpFaultProxy (target: { port: number }): Promise<TcpFaultProxy> {
  let fault: TcpFault = 'pass'
  const pairs = new Set<{ client: net.Socket, server: net.Socket }>()

  const proxy = net.createServer((client) => {
    if (fault === 'refuse') {
      client.resetAndDestroy()
      return
    }
    const server = net.connect(target.port, '127.0.0.1')
    const pair = { client, server }
    pairs.add(pair)
    const end = (): void => {
      pairs.delete(pair)
      client.destroy()
      server.destroy()
    }
    for (const socket of [client, server]) {
      socket.setNoDelay(true)
      socket.on('error', end)
      socket.on('close', end)
    }
    client.on('data', (chunk: Buffer) => forward(client, server, chunk))
    server.on('data', (chunk: Buffer) => {
      if (fault === 'tear') {
        client.write(chunk.subarray(0, chunk.length >> 1), () => client.resetAndDestroy())
        end()
      } else {
        forward(server, client, chunk)
      }
    })
    if (fault === 'stall') pause(pair)
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')

  function forward (from: net.Socket, to: net.Socket, chunk: Buffer): void {
    if (to.destroyed || to.write(chunk)) return
    from.pause()
    to.once('drain', () => { if (fault !== 'stall') from.resume() })
  }

  function pause ({ client, server }: { client: net.Socket, server: net.Socket }): void {
    client.pause()
    server.pause()
  }

  return {
    port: (proxy.address() as AddressInfo).port,
    set (next) {
      fault = next
      for (const pair of pairs) {
        if (next === 'stall') pause(pair)
        else if (next === 'refuse') pair.client.resetAndDestroy()
        else if (next === 'pass') {
          pair.client.resume()
          pair.server.resume()
        }
      }
    },
    async close () {
      for (const { client, server } of pairs) {
        client.destroy()
        server.destroy()
      }
      proxy.close()
      await once(proxy, 'close')
    }
  }
}
