import t from 'tap'
import { waitFor } from '../test/support/wait-for.ts'
import { createTestApi, send } from './testing/create-test-api.ts'

t.test('answers health by name of what it depends on, and metrics by route', async (t) => {
  const api = await createTestApi(t)
  await api.call('GET', '~/experiments/')

  t.match(await api.call('GET', '/_liveness'), { status: 200, body: { status: 'ok' } })
  t.match(await api.call('GET', '/_readiness'), { status: 200, body: { status: 'degraded', checks: { postgres: 'ok', clickhouse: 'unavailable' }, pid: process.pid } })
  t.match(await api.call('GET', '/_health/'), { status: 503, body: { status: 'degraded', stuck: ['clickhouse'] } })
  const metrics = await api.app.inject('/metrics')
  t.match(metrics.body, /millrace_api_request_duration_seconds_count\{method="GET",route="\/api\/projects\/:project_id\/experiments\/?",status="200"\} 1/)
})

t.test('stays ready and answers decide while Postgres is unavailable', async (t) => {
  const api = await createTestApi(t)
  await api.call('POST', '~/feature_flags', { key: 'on', filters: { groups: [{ properties: [], rollout_percentage: 100 }] } })
  const decide = async (): Promise<unknown> => await send(api.app, {
    method: 'POST', url: '/decide?v=3', payload: { api_key: api.projectKey, distinct_id: 'd' }
  })
  await waitFor(async () => JSON.stringify(await decide()).includes('"on":true'))

  await api.sql.end({ timeout: 1 })

  t.match(await api.call('GET', '/_readiness'), { status: 200, body: { status: 'degraded', checks: { postgres: 'unavailable' } } })
  t.match(await api.call('GET', '/_health'), { status: 503, body: { stuck: ['postgres', 'clickhouse'] } })
  t.match(await decide(), { status: 200, body: { featureFlags: { on: true }, errorComputingFlags: false } })
})
