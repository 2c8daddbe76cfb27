import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { startNatsOfVersion } from '../../test/support/nats-of-version.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import type { Finding } from './check.ts'
import { runCaptured } from '../testing/run-captured.ts'

t.test('one node is looked at: what it flushes, what it does with a repeated insert, and its logins', async (t) => {
  const { client, url } = await createTestClickHouse(t)
  const env = { CLICKHOUSE_URL: url }

  const fine = await runCaptured(['check', 'clickhouse', '--json'], env)
  t.equal(fine.code, 0, fine.out)
  const findings = JSON.parse(fine.out) as Finding[]
  t.match(findings.filter(({ level }) => level === 'ok').map(({ subject }) => subject), ['tables', 'tokens', 'tokens'])
  t.match(findings.find(({ text }) => text.startsWith('events is not replicated')), { level: 'note', subject: 'tables' })
  t.match(findings.find(({ text }) => text.startsWith('millrace_api')), { level: 'note', text: /set CLICKHOUSE_API_PASSWORD/ })

  await client.command({ query: 'ALTER TABLE persons MODIFY SETTING fsync_after_insert = 0' })
  const bad = await runCaptured(['check', 'clickhouse'], { ...env, CLICKHOUSE_API_PASSWORD: 'not the password' })
  t.equal(bad.code, 1)
  t.match(bad.out, /^wrong +tables +persons answers before its rows are on the disk: run "millrace migrate"/m)
  t.match(bad.out, /^wrong +logins +millrace_api at \S+ is refused "SELECT /m)
})

t.test('the cluster that is asked for has to be there', async (t) => {
  const { url } = await createTestClickHouse(t)
  const { code, out } = await runCaptured(['check', 'clickhouse'], {
    CLICKHOUSE_URL: url, MILLRACE_CLICKHOUSE_CLUSTER: 'nowhere'
  })
  t.equal(code, 1)
  t.match(out, /^wrong +nodes +no cluster nowhere in remote_servers of this node/m)
})

t.test('where no stack is and no address is set, the default that is asked is told', async (t) => {
  const { err } = await runCaptured(['--timeout', '1s', 'check', 'nats'], { MILLRACE_DATA_DIR: t.testdir() })
  t.match(err, /^NATS_URL is not set, and no stack was started on .*: asking nats:\/\/127\.0\.0\.1:4222$/m)
})

t.test('nats-servers are named that may lose events when the power is cut', async (t) => {
  const nats = await startTestNats(t)
  const old = await startNatsOfVersion(t, nats.port, '2.12.15')

  const fine = await runCaptured(['check', 'nats', '--json'], { NATS_URL: nats.url })
  t.equal(fine.code, 0, fine.out)
  t.match(JSON.parse(fine.out), [{ level: 'ok', subject: 'versions' }])

  const bad = await runCaptured(['check', 'nats'], { NATS_URL: old.url })
  t.equal(bad.code, 1)
  t.match(bad.out, /^wrong +versions +nats-server 2\.12\.15 at .* may lose acknowledged events when the power is cut\. Replace it by 2\.15\.1/)
})
