import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { connectClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { createTestApi } from '../../testing/create-test-api.ts'
import { createExperiments, EXPERIMENT, NOW } from '../testing/plant-experiment.ts'

const { client, shared } = await createExperiments(t)

t.test('says what is missing for results', async (t) => {
  const api = await shared.inNewProject()
  const { body: draft } = await api.call('POST', '~/experiments', { ...EXPERIMENT, start_date: null })
  const ask = async (): Promise<any> => await api.call('GET', `~/experiments/${draft.id}/results`)

  t.match(await ask(), { status: 400, body: { code: 'not_launched', detail: 'Experiment has not been launched yet.', attr: 'start_date' } })
  await api.call('PATCH', `~/experiments/${draft.id}`, { start_date: '2999-01-01' })
  t.match(await ask(), { status: 400, body: { code: 'not_launched' } }, 'a start in the future')
  await api.call('PATCH', `~/experiments/${draft.id}`, { filters: {}, secondary_metrics: [] })
  for (const path of ['results', 'secondary_results']) {
    t.match(await api.call('GET', `~/experiments/${draft.id}/${path}`), { status: 400, body: { code: 'not_launched' } }, `${path} without a metric`)
  }
  await api.call('PATCH', `~/experiments/${draft.id}`, { start_date: '2026-01-01' })
  t.match(await ask(), { status: 400, body: { detail: 'Experiment has no target metric', attr: 'filters' } })
  await api.call('PATCH', `~/experiments/${draft.id}`, { filters: { events: [{ id: 'paid', math: 'p99' }] } })
  t.match(await ask(), { status: 400, body: { attr: 'filters__events__0__math' } })
  t.match(await api.call('GET', '~/experiments/4711/results'), { status: 404 })
})

t.test('answers 503 while ClickHouse is unavailable, and goes on serving experiments', async (t) => {
  const api = await createTestApi(t)
  const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)

  for (const path of ['results', 'secondary_results']) {
    t.match(await api.call('GET', `~/experiments/${experiment.id}/${path}`), {
      status: 503, headers: { 'retry-after': /\d/ }, body: { type: 'server_error', code: 'clickhouse_unavailable', detail: /ClickHouse/, attr: null }
    })
  }
  t.match(await api.call('GET', '~/experiments/requires_flag_implementation'), { status: 503 })
  t.equal((await api.call('GET', `~/experiments/${experiment.id}`)).status, 200)
  t.equal((await api.call('GET', '~/event_definitions')).status, 200)
})

t.test('answers 503 while ClickHouse starts or is overloaded, and 500 when an operator must act', async (t) => {
  let answer = ''
  const server = http.createServer((_request, response) => {
    response.writeHead(500, { 'x-clickhouse-exception-code': /\d+/.exec(answer)![0] }).end(answer)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const clickhouse = connectClickHouse({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/millrace` })
  t.teardown(async () => {
    await clickhouse.close()
    server.close()
  })
  const api = await createTestApi(t, { clickhouse })
  const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)

  for (const [text, status, code] of [
    ['Code: 668. DB::Exception: Server is starting. (INVALID_STATE)', 503, 'clickhouse_unavailable'],
    ['Code: 745. DB::Exception: CPU is overloaded. (SERVER_OVERLOADED)', 503, 'clickhouse_unavailable'],
    ['Code: 159. DB::Exception: Timeout exceeded: elapsed 60001.5 ms, maximum: 60000 ms. (TIMEOUT_EXCEEDED)', 503, 'clickhouse_timeout'],
    ['Code: 60. DB::Exception: Table events does not exist. (UNKNOWN_TABLE)', 500, 'error']
  ] as const) {
    answer = text
    const { status: answered, headers, body } = await api.call('GET', `~/experiments/${experiment.id}/results`)
    t.match({ answered, code: body.code }, { answered: status, code }, text)
    t.equal(headers['retry-after'], status === 503 ? '5' : undefined)
  }
})

t.test('more than a hundred metrics are refused, and no metric is begun for a client that left', async (t) => {
  let asked = 0
  const gone = new AbortController()
  const counted = new Proxy(client, {
    get: (target, name) => name === 'query'
      ? async (options: Parameters<typeof client.query>[0]) => {
        if (asked++ === 0) gone.abort()
        return await target.query(options)
      }
      : Reflect.get(target, name)
  })
  const api = await createTestApi(t, { clickhouse: counted, now: () => NOW })
  const metrics = (count: number) => Array.from({ length: count }, (_, i) => ({ name: `${i}`, kind: 'mean', event: 'paid', property: 'amount' }))
  const { body: { id } } = await api.call('POST', '~/experiments', { ...EXPERIMENT, secondary_metrics: metrics(100) })
  const origin = await api.app.listen({ port: 0, host: '127.0.0.1' })

  await t.rejects(fetch(`${origin}/api/projects/${api.projectId}/experiments/${id}/secondary_results`, {
    headers: { authorization: `Bearer ${api.key}` }, signal: gone.signal
  }))
  for (let i = 0; i < 3; i++) t.equal((await api.call('GET', `~/experiments/${id}/secondary_results?id=99&refresh=true`)).status, 200)
  const before = asked
  await api.call('GET', `~/experiments/${id}/secondary_results?id=99&refresh=true`)
  t.ok(before < 6 * (asked - before), `${before} queries for four metrics, of ${asked - before} each`)

  await api.call('PATCH', `~/experiments/${id}`, { secondary_metrics: metrics(101) })
  t.match(await api.call('GET', `~/experiments/${id}/secondary_results?id=0`), { status: 400, body: { attr: 'secondary_metrics' } })
})

t.test('remembers results for five minutes, unless asked to refresh', async (t) => {
  let now = NOW
  const api = await createTestApi(t, { clickhouse: client, now: () => now })
  const { body: experiment } = await api.call('POST', '~/experiments', EXPERIMENT)
  const ask = async (query = ''): Promise<any> => (await api.call('GET', `~/experiments/${experiment.id}/results${query}`)).body

  const first = await ask()
  now += 60_000
  const second = await ask()
  const third = await ask('?refresh=true')
  const fourth = await ask()
  now += 300_000
  const fifth = await ask()

  t.match(first, { is_cached: false, last_refresh: new Date(NOW).toISOString() })
  t.match(second, { is_cached: true, last_refresh: first.last_refresh })
  t.match(third, { is_cached: false, last_refresh: new Date(NOW + 60_000).toISOString() })
  t.match(fourth, { is_cached: true, last_refresh: third.last_refresh })
  t.match(fifth, { is_cached: false })
  await api.call('PATCH', `~/experiments/${experiment.id}`, { filters: { events: [{ id: 'other' }] } })
  t.match(await ask(), { is_cached: false }, 'another metric is another result')
})
