import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { checkPorts, pickFreePort, startOnPort } from './ports.ts'
import { loadStackSettings } from './stack-settings.ts'
import { ServiceStartError } from './processes/service.ts'

t.test('names every port that is taken, and the setting that changes it', async (t) => {
  const [first, second] = [await listen(t), await listen(t)]
  const settings = loadStackSettings({ ...FREE, MILLRACE_PORT: String(first), MILLRACE_NATS_PORT: String(second) })

  await t.rejects(checkPorts(settings), {
    message: new RegExp(`port ${first} .*ingest.* set MILLRACE_PORT .*\\n.*port ${second} .*nats.* set MILLRACE_NATS_PORT`)
  })
})

t.test('does not look at the port of a part that a URL replaces', async (t) => {
  const port = await listen(t)
  const settings = loadStackSettings({
    ...FREE, MILLRACE_NATS_PORT: String(port), NATS_URL: 'nats://nats.example:4222'
  })

  await t.resolves(checkPorts(settings))
})

t.test('refuses one port for two parts', async (t) => {
  const settings = loadStackSettings({ ...FREE, MILLRACE_PORT: '21999', MILLRACE_API_PORT: '21999' })

  await t.rejects(checkPorts(settings), { message: /MILLRACE_API_PORT and MILLRACE_PORT are both 21999/ })
})

t.test('tells an address that this machine does not have from a port that is taken', async (t) => {
  // 192.0.2.1 is for documentation: nobody has it.
  const settings = loadStackSettings({ ...FREE, MILLRACE_HOST: '192.0.2.1', MILLRACE_CLICKHOUSE_HOST: '127.0.0.1:80' })

  await t.rejects(checkPorts(settings), {
    message: /MILLRACE_HOST must be an address of this machine, .* but is "192\.0\.2\.1" .*\n.*MILLRACE_CLICKHOUSE_HOST must be .* but is "127\.0\.0\.1:80"/
  })
})

const FREE = {
  MILLRACE_PORT: '0', MILLRACE_CLICKHOUSE_PORT: '0', MILLRACE_NATS_PORT: '0', MILLRACE_POSTGRES_PORT: '0'
}

async function listen (t: { teardown (run: () => unknown): unknown }): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

t.test('tells each port once, and none on which somebody listens', async (t) => {
  const first = await pickFreePort()
  const server = createServer().listen(first + 2, '127.0.0.1')
  t.teardown(() => { server.close() })
  await once(server, 'listening')

  const ports = [await pickFreePort(), await pickFreePort()]

  t.notOk(ports.includes(first) || ports.includes(first + 2), `${first}, then ${ports.join(', ')}`)
  t.not(ports[0], ports[1])
})

t.test('gives no port to two that pick from the same place', { skip: process.platform !== 'linux' }, async (t) => {
  // A thread counts from the first port of this process again, as a process does whose id leads to the same ports.
  const code = `const { parentPort } = require('node:worker_threads')
    import(${JSON.stringify(import.meta.resolve('./ports.ts'))}).then(async ({ pickFreePort }) => {
      for (let count = 0; count < 10; count++) parentPort.postMessage(await pickFreePort())
    })`
  const worker = new Worker(code, { eval: true })
  const theirs: number[] = []
  worker.on('message', (port: number) => { theirs.push(port) })
  const ours = await Promise.all(Array.from({ length: 10 }, async () => await pickFreePort()))
  await once(worker, 'exit')

  t.equal(new Set([...ours, ...theirs]).size, 20, `${ours.join(', ')} and ${theirs.join(', ')}`)
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
