import { setTimeout as delay } from 'node:timers/promises'
import { readCompleteThrough } from '../../platform/clickhouse/connect-clickhouse.ts'
import { prepareLoad } from '../load/load-generator.ts'
import { type BenchContext, type Figure, median, type Question } from '../question.ts'
import { auditEvents, countEvents, cpuBetween, readTiers, waitUntilVisible } from '../read-stack.ts'

const EVENTS_PER_SECOND = 20_000
const EVENTS_PER_REQUEST = 100
/** Of the stack at rest, in milliseconds. */
const REST_MS = 15_000
/** Longest wait for merges, in milliseconds. */
const MAX_MERGES_MS = 60_000

/** Windows begin and end with a minute of the ledger, which is some seconds behind: an export would wait for it. */
const [MINUTE_MS, BOOKS_MS] = [60_000, 12_000]
/** Longest wait for an export, in milliseconds. */
const MAX_EXPORT_MS = 120_000
/** Exports of the same window, whose median counts. */
const RUNS = 3
/** Cores of the machine whose share is reported. */
const CORES = 2

/** What an hourly export costs beside the way in of its events: ingest, stream, pipeline, inserts and merges. */
export const exporting: Question = {
  name: 'export',
  asks: `a million events in gzip batches at ${EVENTS_PER_SECOND}/s, then one window of them as Parquet in a folder: CPU of the export beside that of all tiers until they were stored`,
  isLong: true,
  async answer (context): Promise<Figure[]> {
    const events = context.quick ? 200_000 : 1_000_000
    // Of a stack at rest, in microseconds a millisecond: what it spends beside the work.
    const startedAt = performance.now()
    const idle = await measure(context, 0, async () => { await delay(REST_MS) })
    const rest = idle / (performance.now() - startedAt)
    const from = new Date(Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS)
    const arrival = await measure(context, rest, async () => {
      await send(context, events)
      await waitForMerges(context)
    })
    const to = new Date(Math.ceil(Date.now() / MINUTE_MS) * MINUTE_MS)
    const deadline = Date.now() + MAX_EXPORT_MS
    while ((await readCompleteThrough(context.stack.clickhouse) ?? from) < to) {
      await delay(1000)
      if (Date.now() > deadline) throw new Error('complete_through did not reach the end of the window')
    }
    await delay(BOOKS_MS)
    const runs: number[] = []
    for (let run = 0; run < RUNS; run++) {
      runs.push(await measure(context, rest, async () => await exportWindow(context, { from, to }, events)))
    }
    const perEvent = median(runs) / events
    return [
      {
        name: 'CPU of the export', value: perEvent, unit: 'µs/event', target: { atMost: 0.05 },
        reference: { name: 'of the way in', value: arrival / events }
      },
      {
        name: `export at ${EVENTS_PER_SECOND}/s`, value: perEvent * EVENTS_PER_SECOND / CORES / 10_000, unit: `% of ${CORES} cores`,
        target: { atMost: 5 }
      }
    ]
  }
}

/** CPU of the stack in microseconds, without what it spends at rest. That of this process does not count. */
async function measure ({ stack }: BenchContext, rest: number, work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now()
  const before = readTiers(stack.supervisor.pid as number)
  await work()
  const spent = cpuBetween(before, readTiers(stack.supervisor.pid as number))
  const all = Object.values(spent).reduce((sum, cpu) => sum + cpu, 0)
  return all - rest * (performance.now() - startedAt)
}

/** Merges are a part of what events cost. */
async function waitForMerges ({ stack }: BenchContext): Promise<void> {
  const deadline = performance.now() + MAX_MERGES_MS
  for (let quiet = 0; quiet < 5 && performance.now() < deadline; quiet++) {
    const [row] = await stack.select<{ merges: string }>('SELECT count() AS merges FROM system.merges')
    if (Number(row?.merges) !== 0) quiet = 0
    await delay(500)
  }
}

async function send ({ stack, port }: BenchContext, events: number): Promise<void> {
  const requests = events / EVENTS_PER_REQUEST
  const load = await prepareLoad({
    port, path: '/batch/', apiKey: stack.projectApiKey, seed: 59, requests, eventsPerRequest: EVENTS_PER_REQUEST,
    connections: 16, gzip: true, ratePerSecond: EVENTS_PER_SECOND / EVENTS_PER_REQUEST
  })
  const before = await countEvents(stack)
  const { failed } = await load.run()
  if (failed > 0) throw new Error(`${failed} requests failed`)
  await waitUntilVisible(stack, before, events)
  await auditEvents(stack, before, events)
}

/** Has the pipeline write the window, as a backfill of a paused export, of which nothing else is due. */
async function exportWindow (
  { stack: { sql } }: BenchContext, { from, to }: { from: Date, to: Date }, events: number
): Promise<void> {
  const id = await sql.begin(async (transaction) => {
    const [{ id }] = await transaction<[{ id: number }]>`
      INSERT INTO exports (project_id, name, schedule, target, tables, paused)
      VALUES (1, 'bench', 'hour', '{"kind":"folder"}', '["events"]', true) RETURNING id`
    await transaction`
      INSERT INTO export_windows (export_id, table_name, window_from, window_to, revision, reason)
      VALUES (${id}, 'events', ${from}, ${to}, 0, 'backfill')`
    return id
  })
  const deadline = performance.now() + MAX_EXPORT_MS
  for (;;) {
    const [{ rows }] = await sql<[{ rows: string | null }]>`
      SELECT CASE WHEN written_at IS NOT NULL THEN rows END AS rows FROM export_windows WHERE export_id = ${id}`
    if (rows !== null && Number(rows) !== events) throw new Error(`the export has ${rows} of ${events} events`)
    if (rows !== null) break
    if (performance.now() > deadline) throw new Error(`the window was not exported within ${MAX_EXPORT_MS / 1000} s`)
    await delay(500)
  }
  await sql`DELETE FROM exports WHERE id = ${id}`
}
