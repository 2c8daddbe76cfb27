import fastify from 'fastify'
import t from 'tap'
import { BEHIND_MS, checkService, healthRoutes, healthStatusCode, reportHealth, type ProcessPhase } from './health-and-readiness.ts'
import { createMetrics } from './metrics.ts'

t.test('names stuck parts, the service before the stages that wait for it', async (t) => {
  const report = reportHealth([
    { name: 'partition live.0', healthy: false, phase: 'retrying' },
    { name: 'definitions', healthy: true },
    { name: 'clickhouse', healthy: false }
  ])

  t.match(report, { status: 'degraded', stuck: ['clickhouse', 'partition live.0'] })
  t.match(reportHealth([{ name: 'nats', healthy: true }]), { status: 'ok', stuck: [] })
})

t.test('old work is said with its age, and is no reason to take the process for broken', async (t) => {
  const partition = { name: 'partition live.0', healthy: true, lagMs: BEHIND_MS + 1 }
  const stream = { name: 'stream EVENTS', healthy: true, lagMs: 80_000 }
  const fresh = { name: 'stream PERSONS', healthy: true, lagMs: 900 }

  const behind = reportHealth([partition, stream, fresh])
  t.match(behind, { status: 'behind', stuck: [] })
  t.same(behind.behind, [{ name: 'stream EVENTS', lagMs: 80_000 }, { name: 'partition live.0', lagMs: BEHIND_MS + 1 }])
  t.equal(healthStatusCode(behind), 200)
  const stuck = reportHealth([{ ...partition, healthy: false }, stream])
  t.match(stuck, { status: 'degraded', stuck: ['partition live.0'], behind: [{ name: 'stream EVENTS' }, {}] })
  t.equal(healthStatusCode(stuck), 503)
  t.match(reportHealth([fresh]), { status: 'ok', behind: [] })
})

t.test('a service that refuses is unhealthy by its code, one that hangs by the time', async (t) => {
  const refused = await checkService('postgres', async () => { throw Object.assign(new Error('secret'), { code: 'ECONNREFUSED' }) })
  const hung = await checkService('clickhouse', async () => await new Promise(() => {}))

  t.same(refused, { name: 'postgres', healthy: false, lastError: 'ECONNREFUSED' })
  t.match(hung, { name: 'clickhouse', healthy: false, lastError: 'no answer within 2000 ms' })
})

t.test('is not ready before it can serve, nor from the beginning of its end', async (t) => {
  const app = fastify()
  t.teardown(async () => await app.close())
  let phase: ProcessPhase = 'starting'
  await app.register(healthRoutes, {
    registry: createMetrics('api').registry,
    checks: { nats: async () => {}, postgres: async () => await new Promise(() => {}) },
    parts: () => [],
    phase: () => phase
  })
  const ask = async (): Promise<unknown> => {
    const { statusCode, body } = await app.inject('/_readiness')
    return [statusCode, JSON.parse(body)]
  }
  const checks = { nats: 'ok', postgres: 'unavailable' }

  t.same(await ask(), [503, { status: 'starting', checks, pid: process.pid }])
  phase = 'running'
  // It does not wait for Postgres, which never answers here.
  t.same(await ask(), [200, { status: 'degraded', checks, pid: process.pid }])
  phase = 'shutting down'
  t.same(await ask(), [503, { status: 'shutting down', checks, pid: process.pid }])
})
