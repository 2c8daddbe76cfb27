import { createEventSource } from '../load/prepare-events.ts'
import { FILLED_PROJECT, fillTable } from '../load/fill-table.ts'
import { prepareLoad } from '../load/load-generator.ts'
import { median, percentile, repeat, type BenchContext, type Figure } from '../question.ts'
import { cpuBetween, readTiers } from '../read-stack.ts'
import { sendAndFind } from './visible.bench.ts'

const WEEK_MS = 7 * 86_400_000
const API_KEY = 'phc_filled_project_key'
const EVENTS_PER_REQUEST = 100
const CONNECTIONS = 16
const PROBE_PAUSE_MS = 150
const VISIBLE_TIMEOUT_MS = 120_000

/** A load of events that passed the whole way. */
interface Passed {
  perSecond: number
  /** Of all tiers, in microseconds an event. */
  cpuUs: number
  /** How long fresh events took that were sent meanwhile, in milliseconds. */
  probesMs: number[]
}

/**
 * What events cost whose uuid is a week old, as phones send them that were offline: the memory of a pipeline that was
 * restarted does not reach so far back, so they may be stored already. Beside them fresh single events.
 */
export async function measureOldUuids (context: BenchContext): Promise<Figure[]> {
  const { stack, quick } = context
  await fillTable(stack, quick ? 300_000 : 10_000_000)
  await stack.sql`INSERT INTO projects (id, name) VALUES (${FILLED_PROJECT}, 'filled') ON CONFLICT DO NOTHING`
  await stack.sql`INSERT INTO project_api_keys (api_key, project_id) VALUES (${API_KEY}, ${FILLED_PROJECT}) ON CONFLICT DO NOTHING`
  const restartMs = await restartPipeline(context)
  const runs = await repeat(context, async (repetition) => {
    const bodies = makeBodies(context, 9000 + repetition, WEEK_MS)
    return {
      fresh: await send(context, makeBodies(context, 9500 + repetition, 0), { isNew: true }),
      old: await send(context, bodies, { isNew: true }),
      again: await send(context, bodies, { isNew: false })
    }
  })
  await audit(context)
  const of = (kind: 'fresh' | 'old' | 'again', read: (run: Passed) => number): number =>
    median(runs.map((run) => read(run[kind])))
  const p99 = (kind: 'fresh' | 'old' | 'again'): number => percentile(runs.flatMap((run) => run[kind].probesMs), 0.99)
  const cpu = ({ cpuUs }: Passed): number => cpuUs
  return [
    { name: 'first event after a restart', value: restartMs, unit: 'ms' },
    {
      name: 'uuids a week old', value: of('old', ({ perSecond }) => perSecond), unit: 'events/s',
      reference: { name: 'new ones', value: of('fresh', ({ perSecond }) => perSecond) }, target: { atLeast: 0.8 }
    },
    { name: 'uuids a week old, cpu', value: of('old', cpu), unit: 'us/event', reference: { name: 'new ones', value: of('fresh', cpu) } },
    { name: 'uuids a week old, sent again, cpu', value: of('again', cpu), unit: 'us/event', reference: { name: 'new ones', value: of('fresh', cpu) } },
    { name: 'fresh beside uuids a week old p99', value: p99('old'), unit: 'ms', reference: { name: 'beside new ones', value: p99('fresh') } },
    { name: 'fresh beside them sent again p99', value: p99('again'), unit: 'ms', reference: { name: 'beside new ones', value: p99('fresh') } }
  ]
}

function makeBodies ({ quick }: BenchContext, seed: number, ageMs: number): string[] {
  const nextEvent = createEventSource(seed, { ageMs })
  return Array.from({ length: quick ? 100 : 1000 }, () => JSON.stringify({
    api_key: API_KEY,
    batch: Array.from({ length: EVENTS_PER_REQUEST }, nextEvent),
    sent_at: new Date().toISOString()
  }))
}

/** Kills the pipeline; the supervisor starts it again. Resolves with the milliseconds until an event is visible. */
async function restartPipeline (context: BenchContext): Promise<number> {
  const { pipeline } = readTiers(context.stack.supervisor.pid as number)
  const startedAt = performance.now()
  process.kill(pipeline.pid, 'SIGKILL')
  await sendAndFind(context, nextProbe(9999)())
  return performance.now() - startedAt
}

async function send (context: BenchContext, bodies: string[], { isNew }: { isNew: boolean }): Promise<Passed> {
  const { stack, port } = context
  const events = bodies.length * EVENTS_PER_REQUEST
  const load = await prepareLoad({
    port, path: '/batch/', apiKey: API_KEY, seed: 0, requests: bodies.length, eventsPerRequest: EVENTS_PER_REQUEST,
    connections: CONNECTIONS, gzip: false, bodies
  })
  const supervisor = stack.supervisor.pid as number
  const before = await count(context)
  const cpuBefore = readTiers(supervisor)
  const startedAt = performance.now()
  const passed = new AbortController()
  const sent = (async () => {
    const result = await load.run()
    if (result.failed > 0) throw new Error(`${result.failed} of ${bodies.length} requests failed`)
    if (isNew) await waitForRows(context, before + events)
    // What was sent again leaves no rows: a later event of the partition shows that it passed.
    else await sendAndFind(context, nextProbe(startedAt)())
    return performance.now() - startedAt
  })().finally(() => passed.abort())
  const probesMs = await probe(context, passed.signal)
  const ms = await sent
  const cpu = cpuBetween(cpuBefore, readTiers(supervisor))
  if (await count(context) !== before + (isNew ? events : 0)) throw new Error('events that were sent again were stored again')
  return {
    perSecond: events / ms * 1000,
    cpuUs: (cpu.ingest + cpu.nats + cpu.pipeline + cpu.clickhouse) / events,
    probesMs
  }
}

async function probe (context: BenchContext, passed: AbortSignal): Promise<number[]> {
  const nextEvent = nextProbe(performance.now())
  const delaysMs: number[] = []
  do {
    delaysMs.push(await sendAndFind(context, nextEvent()))
    await new Promise((resolve) => setTimeout(resolve, PROBE_PAUSE_MS))
  } while (!passed.aborted)
  return delaysMs
}

/** Fresh events of another project. */
function nextProbe (seed: number): () => { uuid: string, distinct_id: string, event: string } {
  return createEventSource(seed) as ReturnType<typeof nextProbe>
}

async function count ({ stack }: BenchContext): Promise<number> {
  const [found] = await stack.select<{ rows: number }>(
    `SELECT toUInt32(count()) AS rows FROM events WHERE project_id = ${FILLED_PROJECT}`)
  return found?.rows ?? 0
}

async function waitForRows (context: BenchContext, rows: number): Promise<void> {
  const deadline = Date.now() + VISIBLE_TIMEOUT_MS
  while (await count(context) < rows) {
    if (Date.now() > deadline) throw new Error('the events were not visible after two minutes')
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

/** @throws when an event of the loads was stored twice. */
async function audit ({ stack }: BenchContext): Promise<void> {
  const [found] = await stack.select<{ total: number, unique: number }>(
    `SELECT toUInt32(count()) AS total, toUInt32(uniqExact(uuid)) AS unique FROM events
     WHERE project_id = ${FILLED_PROJECT} AND lib = 'web'`)
  if (found === undefined || found.total !== found.unique) {
    throw new Error(`audit failed: ${found?.total} rows, ${found?.unique} uuids`)
  }
}
