import t from 'tap'
import { startNatsOfVersion } from '../../test/support/nats-of-version.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import type { TestContext } from '../../test/support/test-context.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import type { Logger } from '../logger.ts'
import { connectNats, type NatsConnection } from './connect-nats.ts'
import { survivesPowerCut } from './nats-server-floor.ts'
import { findOldServers, followServerVersions, type ServerVersions } from './server-versions.ts'

const nats = await startTestNats(t)

interface Followed extends ServerVersions { lines: string[], connection: NatsConnection }

async function follow (t: TestContext, url: string): Promise<Followed> {
  const lines: string[] = []
  const logger = { warn: (_: object, line: string) => lines.push(line), error: () => {} } as unknown as Logger
  const connection = await connectNats({ url, name: 'test', logger })
  t.teardown(async () => await connection.close())
  return { ...followServerVersions(connection, logger), lines, connection }
}

t.test('the floor is 2.15.1; what has no version is below it', async (t) => {
  for (const version of ['2.15.1', '2.15.2', '2.16.0-RC.1', '3.0.0']) t.ok(survivesPowerCut(version), version)
  for (const version of ['2.15.0', '2.10.27', '2.9.10', '', 'dev', '2.15']) t.notOk(survivesPowerCut(version), version)
})

t.test('the server that the tests run on is new enough', async (t) => {
  const { refuseOld, part, lines } = await follow(t, nats.url)

  await refuseOld()

  t.same(part(), { name: 'nats version', healthy: true, withdrawn: null })
  t.same(lines, [])
})

t.test('an old one is refused, and the sentence says what to do', async (t) => {
  const { url } = await startNatsOfVersion(t, nats.port, '2.10.27')
  const { refuseOld } = await follow(t, url)

  await t.rejects(refuseOld(), {
    code: 'MILLRACE_NATS_SERVER_TOO_OLD',
    message: `nats-server 2.10.27 at ${url.slice('nats://'.length)} is older than 2.15.1 and may lose acknowledged events when the power is cut. ` +
      'Replace it by 2.15.1 or newer'
  })
})

t.test('one that becomes old while events flow withdraws the promise in health and log, until it is replaced', async (t) => {
  const server = await startNatsOfVersion(t, nats.port, '2.15.1')
  const { refuseOld, part, lines } = await follow(t, server.url)
  await refuseOld()

  server.become('2.12.9')

  await waitFor(async () => !part().healthy)
  t.match(part().withdrawn, /^nats-server 2\.12\.9 at .* may lose acknowledged events when the power is cut/)
  const warning = /^the promise about power cuts is withdrawn: nats-server 2\.12\.9/
  // Beside it, at any moment, the connection's own lines.
  t.equal(lines.filter((line) => warning.test(line)).length, 1)
  server.become('2.15.1')
  await waitFor(async () => part().withdrawn === null)
})

t.test('others of NATS_URL count as well, each once by whatever address, and those that are down do not', async (t) => {
  const other = await startTestNats(t)
  const [old, same] = await Promise.all(['2.10.27', '2.10.27'].map(async (version) => await startNatsOfVersion(t, other.port, version)))
  const { connection } = await follow(t, [nats.url, old!.url, same!.url, 'nats://127.0.0.1:9'].join())

  const found = await findOldServers(connection)

  t.same(found.map(({ version }) => version), ['2.10.27'])
})
