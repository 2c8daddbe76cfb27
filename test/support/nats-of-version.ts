import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { once } from 'node:events'
import type { TestContext } from './test-context.ts'

/** A way to a nats-server on which it says that it is of another version. */
export interface NatsOfVersion {
  url: string
  /** From now on; connections that are open end. */
  become: (version: string) => void
}

/** A line of the protocol, up to the version. */
const INFO = /^(INFO \{.*?"version":")[^"]*/m

/** Passes everything on to the nats-server on a port of this machine, but for the version that the server tells. */
export async function startNatsOfVersion (t: TestContext, port: number, version: string): Promise<NatsOfVersion> {
  const open = new Set<Socket>()
  let now = version
  const proxy = createServer((client) => {
    const server = connect(port, '127.0.0.1')
    client.pipe(server)
    // It says it once more after the login.
    server.on('data', (bytes: Buffer) => client.write(bytes.toString('latin1').replace(INFO, `$1${now}`), 'latin1'))
    for (const [end, other] of [[client, server], [server, client]] as const) {
      open.add(end)
      end.on('error', () => {}).on('close', () => { open.delete(end); other.destroy() })
    }
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const end = (): void => { for (const socket of open) socket.destroy() }
  t.teardown(() => { end(); proxy.close() })
  return {
    url: `nats://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    become (version) {
      now = version
      end()
    }
  }
}
