import t from 'tap'
import type { ProcessPhase } from '../../platform/health-and-readiness.ts'
import { createPipelineMetrics } from '../pipeline-metrics.ts'
import { PartitionState } from '../stream/partition-state.ts'
import { describeHealth, type PipelineState, startHealthServer } from './health-server.ts'

const FILL = { letters: 0, bytes: 0, maxBytes: 100, ratio: 0 }

t.test('names each partition with its lag, and is degraded while one waits', async (t) => {
  const partition = new PartitionState('live.3')
  const state: PipelineState = {
    partitions: [partition], persons: [], copiesError: null, rollUpError: null, deadLetters: FILL
  }
  let phase: ProcessPhase = 'starting'
  const server = await startHealthServer({
    host: '127.0.0.1',
    port: 0,
    registry: createPipelineMetrics(() => [partition]).metrics.registry,
    phase: () => phase,
    checks: { nats: async () => {}, clickhouse: async () => { throw new Error('refused') } },
    parts: () => describeHealth(state)
  })
  t.teardown(() => server.close())
  const get = async (path: string): Promise<Response> => await fetch(`http://127.0.0.1:${server.port}${path}`)

  t.equal((await get('/_liveness')).status, 200)
  t.equal((await get('/_readiness')).status, 503)
  phase = 'running'
  const readiness = await get('/_readiness')
  t.equal(readiness.status, 200)
  t.same(await readiness.json(), { status: 'degraded', checks: { nats: 'ok', clickhouse: 'unavailable' }, pid: process.pid })
  t.equal((await get('/nothing')).status, 404)

  partition.phase = 'running'
  t.equal((await get('/_health')).status, 200)
  partition.oldestStoredAt = Date.now() - 80_000
  const catchingUp = await get('/_health')
  t.equal(catchingUp.status, 200)
  t.match(await catchingUp.json(), { status: 'behind', stuck: [], behind: [{ name: 'partition live.3', lagMs: /^8\d{4}$/ }] })
  partition.phase = 'retrying'
  partition.lastError = 'no answer'
  partition.pendingMessages = 17
  partition.pendingBytes = 1700
  partition.oldestStoredAt = Date.now() - 60_000
  const answer = await get('/_health')
  t.equal(answer.status, 503)
  const { status, parts } = await answer.json() as { status: string, parts: { name: string, lagMs: number }[] }
  t.equal(status, 'degraded')
  t.match(parts[0], { name: 'partition live.3', healthy: false, phase: 'retrying', pendingMessages: 17, lastError: 'no answer' })
  t.ok(parts[0]!.lagMs >= 60_000)

  const metrics = await (await get('/metrics')).text()
  t.match(metrics, /millrace_pipeline_partition_pending_messages\{partition="live.3"\} 17/)
  t.match(metrics, /millrace_pipeline_partition_pending_bytes\{partition="live.3"\} 1700/)
  t.match(metrics, /millrace_pipeline_partition_healthy\{partition="live.3"\} 0/)
})

t.test('a partition whose insert hangs is stuck, although nothing failed yet', async (t) => {
  const partition = new PartitionState('live.0')
  partition.phase = 'running'
  const stuck = (): string[] => describeHealth({
    partitions: [partition], persons: [], copiesError: null, rollUpError: null, deadLetters: FILL
  }).filter(({ healthy }) => !healthy).map(({ name }) => name)

  partition.insertingSince = Date.now() - 1000
  t.same(stuck(), [])
  partition.insertingSince = Date.now() - 20_000
  t.same(stuck(), ['partition live.0'])
})

t.test('is degraded while the dead letters are nearly full, or NATS does not answer', async (t) => {
  const state = { partitions: [], persons: [], copiesError: null, rollUpError: null }
  const unhealthy = (deadLetters: PipelineState['deadLetters']): string[] =>
    describeHealth({ ...state, deadLetters }).filter(({ healthy }) => !healthy).map(({ name }) => name)

  t.same(unhealthy(FILL), [])
  t.same(unhealthy({ ...FILL, bytes: 80, ratio: 0.8 }), ['dead letters'])
  t.same(unhealthy(null), ['nats'])
})
