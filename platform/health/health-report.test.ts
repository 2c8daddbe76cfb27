import t from 'tap'
import { checkService } from './check-service.ts'
import { reportHealth } from './health-report.ts'

t.test('names what is stuck, the service before the stages that wait for it', async (t) => {
  const report = reportHealth([
    { name: 'lane live.0', healthy: false, phase: 'retrying' },
    { name: 'definitions', healthy: true },
    { name: 'clickhouse', healthy: false }
  ])

  t.match(report, { status: 'degraded', stuck: ['clickhouse', 'lane live.0'] })
  t.match(reportHealth([{ name: 'nats', healthy: true }]), { status: 'ok', stuck: [] })
})

t.test('a service that refuses is unhealthy by its code, one that hangs by the time', async (t) => {
  const refused = await checkService('postgres', async () => { throw Object.assign(new Error('secret'), { code: 'ECONNREFUSED' }) })
  const hung = await checkService('clickhouse', async () => await new Promise(() => {}))

  t.same(refused, { name: 'postgres', healthy: false, lastError: 'ECONNREFUSED' })
  t.match(hung, { name: 'clickhouse', healthy: false, lastError: 'no answer within 2000 ms' })
})
