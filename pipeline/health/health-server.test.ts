import t from 'tap'
import { describeHealth, type PipelineState } from './describe-health.ts'
import { startHealthServer } from './health-server.ts'
import { LaneState } from '../lanes/lane-state.ts'
import { createPipelineMetrics } from '../metrics.ts'

const FILL = { letters: 0, bytes: 0, maxBytes: 100, ratio: 0 }

t.test('names each lane with its lag, and is degraded while one waits', async (t) => {
  const lane = new LaneState({ eventClass: 'live', number: 3 })
  const state: PipelineState = { lanes: [lane], people: [], copiesError: null, rollUpError: null, deadLetters: FILL }
  let ready = false
  const server = await startHealthServer({
    host: '127.0.0.1',
    port: 0,
    registry: createPipelineMetrics(() => [lane]).metrics.registry,
    isReady: () => ready,
    parts: () => describeHealth(state)
  })
  t.teardown(() => server.close())
  const get = async (path: string): Promise<Response> => await fetch(`http://127.0.0.1:${server.port}${path}`)

  t.equal((await get('/_liveness')).status, 200)
  t.equal((await get('/_readiness')).status, 503)
  ready = true
  t.equal((await get('/_readiness')).status, 200)
  t.equal((await get('/nothing')).status, 404)

  lane.phase = 'running'
  t.equal((await get('/_health')).status, 200)
  lane.oldestStoredAt = Date.now() - 80_000
  const catchingUp = await get('/_health')
  t.equal(catchingUp.status, 200)
  t.match(await catchingUp.json(), { status: 'behind', stuck: [], behind: [{ name: 'lane live.3', lagMs: /^8\d{4}$/ }] })
  lane.phase = 'retrying'
  lane.lastError = 'no answer'
  lane.pendingMessages = 17
  lane.pendingBytes = 1700
  lane.oldestStoredAt = Date.now() - 60_000
  const answer = await get('/_health')
  t.equal(answer.status, 503)
  const { status, parts } = await answer.json() as { status: string, parts: { name: string, lagMs: number }[] }
  t.equal(status, 'degraded')
  t.match(parts[0], { name: 'lane live.3', healthy: false, phase: 'retrying', pendingMessages: 17, lastError: 'no answer' })
  t.ok(parts[0]!.lagMs >= 60_000)

  const metrics = await (await get('/metrics')).text()
  t.match(metrics, /millrace_pipeline_lane_pending_messages\{lane="live.3"\} 17/)
  t.match(metrics, /millrace_pipeline_lane_pending_bytes\{lane="live.3"\} 1700/)
  t.match(metrics, /millrace_pipeline_lane_healthy\{lane="live.3"\} 0/)
})

t.test('a lane whose insert hangs is stuck, although nothing failed yet', async (t) => {
  const lane = new LaneState({ eventClass: 'live', number: 0 })
  lane.phase = 'running'
  const stuck = (): string[] => describeHealth({
    lanes: [lane], people: [], copiesError: null, rollUpError: null, deadLetters: FILL
  }).filter(({ healthy }) => !healthy).map(({ name }) => name)

  lane.insertingSince = Date.now() - 1000
  t.same(stuck(), [])
  lane.insertingSince = Date.now() - 20_000
  t.same(stuck(), ['lane live.0'])
})

t.test('is degraded while the dead letters are nearly full, or NATS does not answer', async (t) => {
  const state = { lanes: [], people: [], copiesError: null, rollUpError: null }
  const unhealthy = (deadLetters: PipelineState['deadLetters']): string[] =>
    describeHealth({ ...state, deadLetters }).filter(({ healthy }) => !healthy).map(({ name }) => name)

  t.same(unhealthy(FILL), [])
  t.same(unhealthy({ ...FILL, bytes: 80, ratio: 0.8 }), ['dead letters'])
  t.same(unhealthy(null), ['nats'])
})
