import t from 'tap'
import { createLogger } from '../../platform/logger.ts'
import { startNatsOfVersion } from '../../test/support/nats-of-version.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { loadIngestConfig } from '../config.ts'
import { startIngest } from '../start-ingest.ts'
import { PROJECT_KEY, startTestIngest } from '../testing/start-test-ingest.ts'
import { openStreamLink } from './stream-link.ts'

t.test('while its login is refused ingest spools, and publishes by itself when the login works again', async (t) => {
  const { nats, postgres, dataDir } = await startTestIngest(t)
  const ingest = await startIngest(loadIngestConfig({
    NATS_URL: nats.url.replace('//', '//tester:right@'), DATABASE_URL: postgres.url, MILLRACE_PORT: '0', MILLRACE_DATA_DIR: dataDir
  }), createLogger({ component: 'ingest', level: 'silent' }))
  t.teardown(async () => { for (const step of ingest.shutdownSteps) await step.run() })
  const url = `http://127.0.0.1:${ingest.port}`
  const parts = async (): Promise<Record<string, { healthy: boolean, bytes?: number }>> => {
    const report = await (await fetch(`${url}/_health`)).json() as { parts: { name: string, healthy: boolean }[] }
    return Object.fromEntries(report.parts.map((part) => [part.name, part]))
  }
  t.match(await parts(), { nats: { healthy: true } })

  await nats.setPassword('rotated')
  await waitFor(async () => (await parts()).nats?.healthy === false)
  const body = JSON.stringify({ api_key: PROJECT_KEY, event: 'e', distinct_id: 'u' })
  t.equal((await fetch(`${url}/capture/`, { method: 'POST', body })).status, 200)
  t.match(await parts(), { spool: { healthy: false } })
  t.match(await (await fetch(`${url}/_readiness`)).json(), { status: 'degraded', checks: { nats: 'unavailable' } })
  // Longer than the two attempts after which the client by itself closes the connection for good.
  await waitFor(async () => (await nats.refusedLogins()) > 6)

  await nats.setPassword('right')
  await waitFor(async () => { const { nats, spool } = await parts(); return nats?.healthy && spool?.healthy })
})

t.test('a nats-server that may lose events at a power cut is refused at start', async (t) => {
  const { nats, postgres, dataDir } = await startTestIngest(t)
  const old = await startNatsOfVersion(t, nats.port, '2.10.27')
  const env = { NATS_URL: old.url, DATABASE_URL: postgres.url, MILLRACE_PORT: '0', MILLRACE_DATA_DIR: dataDir }
  const logger = createLogger({ component: 'ingest', level: 'silent' })

  const { natsUrl: url, streams } = loadIngestConfig(env)
  const link = openStreamLink({ url, limits: streams, ackTimeoutMs: 3000, logger })
  await t.rejects(link.opened, {
    code: 'MILLRACE_NATS_SERVER_TOO_OLD', message: /nats-server 2\.10\.27 .* Replace it by 2\.15\.1 or newer/
  })
  t.notOk(link.isUp())
  await link.close()
})

t.test('an old nats-server that comes after the start of ingest gets nothing, until it is replaced', async (t) => {
  const nats = await startTestNats(t)
  const { postgres, dataDir } = await startTestIngest(t)
  const old = await startNatsOfVersion(t, nats.port, '2.10.27')
  await nats.stop()
  const ingest = await startIngest(loadIngestConfig({
    NATS_URL: old.url, DATABASE_URL: postgres.url, MILLRACE_PORT: '0', MILLRACE_DATA_DIR: dataDir
  }), createLogger({ component: 'ingest', level: 'silent' }))
  t.teardown(async () => { for (const step of ingest.shutdownSteps) await step.run() })
  const url = `http://127.0.0.1:${ingest.port}`
  const stuck = async (): Promise<string[]> => (await (await fetch(`${url}/_health`)).json() as { stuck: string[] }).stuck

  await nats.restart()
  await waitFor(async () => (await stuck()).includes('nats version'))
  const body = JSON.stringify({ api_key: PROJECT_KEY, event: 'e', distinct_id: 'u' })
  t.equal((await fetch(`${url}/capture/`, { method: 'POST', body })).status, 503, 'as of any process that never reached NATS')
  t.same(await stuck(), ['nats', 'nats version'])

  old.become('2.15.1')
  await waitFor(async () => (await stuck()).length === 0)
  t.equal((await fetch(`${url}/capture/`, { method: 'POST', body })).status, 200)
})
