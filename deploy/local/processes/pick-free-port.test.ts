import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import t from 'tap'
import { pickFreePort, startOnPort } from './pick-free-port.ts'
import { ServiceStartError } from './wait-until-ready.ts'

t.test('tells each port once, and none on which somebody listens', async (t) => {
  const first = await pickFreePort()
  const server = createServer().listen(first + 2, '127.0.0.1')
  t.teardown(() => { server.close() })
  await once(server, 'listening')

  const ports = [await pickFreePort(), await pickFreePort()]

  t.notOk(ports.includes(first) || ports.includes(first + 2), `${first}, then ${ports.join(', ')}`)
  t.not(ports[0], ports[1])
})

t.test('starts on another port when somebody was faster, and gives up when the port was not the reason', async (t) => {
  const tried: number[] = []
  const start = async (port: number): Promise<number> => {
    tried.push(port)
    if (tried.length > 1) return port
    const faster = createServer().listen(port, '127.0.0.1')
    t.teardown(() => { faster.close() })
    await once(faster, 'listening')
    t.equal((faster.address() as AddressInfo).port, port)
    throw new ServiceStartError('the port is in use')
  }

  t.equal(await startOnPort(0, start), tried[1])
  t.equal(tried.length, 2)
  await t.rejects(startOnPort(0, async () => { throw new ServiceStartError('no licence') }), /no licence/)
})
