import t from 'tap'
import { Webhook } from 'standardwebhooks'
import { startDeliveries } from '../../pipeline/windows/notify/deliver-queue.ts'
import { createSender } from '../../pipeline/windows/notify/send-notification.ts'
import { receiveRequests } from '../../pipeline/windows/testing/receive-requests.ts'
import { createLogger } from '../../platform/logger.ts'
import { createMetrics } from '../../platform/metrics.ts'
import { connectNats } from '../../platform/nats/connect-nats.ts'
import { startTestNats } from '../../test/support/test-processes.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { startApi } from '../testing/run-captured.ts'

const logger = createLogger({ component: 'test', level: 'silent' })
const [{ client: clickhouse, url }, nats] = await Promise.all([createTestClickHouse(t), startTestNats(t)])
const api = await startApi(t, { clickhouse, analystUrl: Object.assign(new URL(url), { username: 'analyst', password: 'analyst' }).href })
const { call, projectId } = await api.inNewProject()
const run = async (line: string) => await api.run(...line.split(' '), '--project', String(projectId))
const runJson = async (line: string): Promise<unknown> => {
  const { out, err } = await run(`${line} --json`)
  return JSON.parse(out === '' ? JSON.stringify(err) : out)
}

t.test('targets: list, test with its exit code, secret', async (t) => {
  const connection = await connectNats({ url: nats.url, name: 'test', logger })
  const { send, close } = createSender({ allowed: '127.0.0.1', smtpUrl: '', mailFrom: '', readPicture: async () => null, now: Date.now })
  const deliveries = startDeliveries({
    sql: api.sql, connection, hasRoom: async () => true, send, leads: () => true, now: Date.now, roundMs: 20, metrics: createMetrics('test'), logger
  })
  t.teardown(async () => { await deliveries.stop(); await close(); await connection.close() })
  const hook = await receiveRequests(t)
  const { body: { id } } = await call('POST', '~/targets/', { name: 'crm', kind: 'webhook', url: hook.url })

  t.match(await run(`targets test ${id}`), { code: 0, out: /delivered +true/ })
  const { secret } = await runJson(`targets secret ${id}`) as { secret: string }
  const [first] = hook.received
  t.match(new Webhook(secret).verify(first?.body ?? '', first?.headers as Record<string, string>), { type: 'test', data: { target: 'crm' } })
  hook.setAnswer((response) => response.writeHead(500).end('inside'))
  t.match(await run(`targets test ${id}`), { code: 1, out: /it answered 500/ })
  t.match(await runJson('targets list'), [{ id, name: 'crm', waiting: 0, last_error: 'it answered 500', sent_events: [] }])
  t.match((await run('targets list')).out, /crm +webhook +http:\/\/127\.0\.0\.1:\d+\/… +true +0 .*it answered 500\n$/)
  t.match(await run('targets test 999999'), { code: 1, err: /not found/i })
})

t.test('alerts: list, windows, dry run', async (t) => {
  const END = Date.parse('2026-05-31T00:00:00Z')
  const at = (hoursAgo: number): string => new Date(END - hoursAgo * 3_600_000 + 1000).toISOString().slice(0, -1).replace('T', ' ')
  const events = [5, 5, 5, 3].map((hours) => ({ project_id: projectId, uuid: crypto.randomUUID(), event: 'paid', distinct_id: 'ann', timestamp: at(hours), received_at: at(hours), properties: '{}' }))
  await clickhouse.insert({ table: 'events', format: 'JSONEachRow', values: events })
  await clickhouse.command({ query: "INSERT INTO watermark_reached SELECT 0, {through: DateTime64(3)}, tuple(now64(3), '')", query_params: { through: new Date(END) } })
  const { body: question } = await call('POST', '~/questions/', { name: 'Payments', definition: { kind: 'trend', version: 1, series: [{ event: 'paid' }] } })
  const { body: target } = await call('POST', '~/targets/', { name: 'team', kind: 'mail', url: 'mailto:team@example.com' })
  const { body: alert } = await call('POST', '~/alerts/', { name: 'many', about: { kind: 'question', id: question.id }, every: 'hour', condition: { is: 'above', value: 2 }, targets: [target.id] })

  t.match(await runJson('alerts list'), [{ id: alert.id, name: 'many', is_firing: false }])
  t.match((await run('alerts list')).out, /many +hour +true +false/)
  t.match(await runJson(`alerts dry-run ${alert.id}`), [
    { from: '2026-05-30T19:00:00.000Z', value: 3, outcome: 'fired' }, { from: '2026-05-30T20:00:00.000Z', value: 0, outcome: 'resolved' }
  ])
  await api.sql`INSERT INTO alert_windows ${api.sql({ alert_id: alert.id, window_from: new Date(END - 3_600_000), window_to: new Date(END), value: 7, outcome: 'fired' })}`
  t.match((await run(`alerts windows ${alert.id}`)).out, /2026-05-30 ?T?23:00:00.* 7 .*fired\n$/)
  t.match(await run('alerts dry-run 999999'), { code: 1, err: /not found/i })
})
