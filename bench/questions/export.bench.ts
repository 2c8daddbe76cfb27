import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { clearScratch, openFolderTarget } from '../../pipeline/windows/export/export-target.ts'
import { type PlannedRevision, writeRevision } from '../../pipeline/windows/export/write-revision.ts'
import { createSemaphore } from '../../platform/semaphore.ts'
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
    const idle = await measure(context, 0, async () => { await delay(REST_MS); return 0 })
    const rest = idle / (performance.now() - startedAt)
    const from = new Date(Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS)
    const arrival = await measure(context, rest, async () => {
      await send(context, events)
      return await waitForMerges(context)
    })
    const to = new Date(Math.ceil(Date.now() / MINUTE_MS) * MINUTE_MS)
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

/** CPU of the stack in microseconds, without what it spends at rest. The work returns that of this process. */
async function measure ({ stack }: BenchContext, rest: number, work: () => Promise<number>): Promise<number> {
  const startedAt = performance.now()
  const before = readTiers(stack.supervisor.pid as number)
  const own = await work()
  const spent = cpuBetween(before, readTiers(stack.supervisor.pid as number))
  const all = Object.values(spent).reduce((sum, cpu) => sum + cpu, own)
  return all - rest * (performance.now() - startedAt)
}

/** Merges are a part of what events cost. @returns 0: the CPU of this process does not count. */
async function waitForMerges ({ stack }: BenchContext): Promise<number> {
  const deadline = performance.now() + MAX_MERGES_MS
  for (let quiet = 0; quiet < 5 && performance.now() < deadline; quiet++) {
    const [row] = await stack.select<{ merges: string }>('SELECT count() AS merges FROM system.merges')
    if (row?.merges !== '0') quiet = 0
    await delay(500)
  }
  return 0
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

/** @returns the CPU of this process, in microseconds. */
async function exportWindow (
  { stack: { sql, clickhouse } }: BenchContext, { from, to }: { from: Date, to: Date }, events: number
): Promise<number> {
  const root = await mkdtemp(path.join(tmpdir(), 'millrace-bench-export-'))
  const [{ id }] = await sql<[{ id: number }]>`
    INSERT INTO exports (project_id, name, schedule, target, tables)
    VALUES (1, 'bench', 'hour', '{"kind":"folder"}', '["events"]') RETURNING id`
  const [planned] = await sql<[PlannedRevision]>`
    INSERT INTO export_windows (export_id, table_name, window_from, window_to, revision, reason)
    VALUES (${id}, 'events', ${from}, ${to}, 0, 'schedule')
    RETURNING id, table_name AS table, window_from AS from, window_to AS to, revision, reason, parts`
  const target = openFolderTarget(root)
  await clearScratch(target.scratch)
  const before = process.cpuUsage()
  await writeRevision(planned, { id, projectId: 1, folder: '1/bench', schedule: 'hour', filter: null, columns: {} }, {
    sql, clickhouse, cluster: '', target, reading: createSemaphore({ limit: 1 }), signal: new AbortController().signal
  })
  const { user, system } = process.cpuUsage(before)
  const [{ rows }] = await sql<[{ rows: string }]>`SELECT rows FROM export_windows WHERE id = ${planned.id}`
  if (Number(rows) !== events) throw new Error(`the export has ${rows} of ${events} events`)
  await sql`DELETE FROM exports WHERE id = ${id}`
  await rm(root, { recursive: true })
  return user + system
}
