import { randomUUID } from 'node:crypto'
import t from 'tap'
import { isClean, renderReport } from './audit/fault-report.ts'
import { FAULTS } from './kinds/faults.ts'
import { FAULT_PROJECT_KEY, type FaultSystem, openFaultSystem } from './system/fault-system.ts'
import { createRandom } from '../support/random.ts'
import { runFaults } from './run-faults.ts'
import { PATIENCE_MS } from '../support/wait-for.ts'
import { waitUntilDrained } from './audit/wait-until-recovered.ts'

/**
 * Some of each group that are over soon; `npm run faults` runs all of them, and longer. A rolling restart has a test of
 * its own, which allows no client another try.
 */
const NAMES = [
  'ingest-kill', 'pipeline-kill', 'clickhouse-kill', 'nats-kill',
  'postgres-reset', 'postgres-torn',
  'clickhouse-busy', 'clickhouse-lost-answer',
  'stream-full',
  'poisoned-message', 'refused-rows',
  'clock-back'
]

/** The same order of faults in each run; another one finds other things, by `npm run faults`. */
const SEED = 2

t.test('kills, breaks and fills a running system under load, and finds every event once', { timeout: 1_100_000 }, async (t) => {
  const signal = AbortSignal.timeout(1_050_000)
  await using opened = await openFaultSystem({ signal })
  const report = await runFaults(opened.system, {
    faults: FAULTS.filter(({ name }) => NAMES.includes(name)),
    durationMs: 1, eachOnce: true, isLong: false, eventsPerSecond: 400, random: createRandom(SEED), disk: null, signal,
    onProgress: (line) => t.comment(line)
  })

  t.comment(renderReport(report))
  t.same(report.rows.map(({ name, injected }) => [name, injected]).sort(), NAMES.map((name) => [name, 1]).sort())
  t.same(report.problems, [], 'views, definitions and persons agree with events, and each fault took place')
  t.same([report.watermark.passed.size, report.watermark.wentBack], [0, 0], 'complete periods do not change')
  t.ok(report.watermark.moves > 20, `the watermark moved ${report.watermark.moves} times`)
  for (const audit of report.audits) {
    t.equal(audit.lost.size, 0, 'nothing acknowledged is lost')
    t.equal(audit.duplicated.size, 0, 'nothing is stored twice')
    t.equal(audit.strangers, 0, 'nothing is stored that was never sent')
  }
  t.same(report.books.problems, [], 'the books balance')
  t.ok(report.books.compared >= report.acknowledged, `of ${report.acknowledged} events ${report.books.compared} were compared`)
  t.ok(report.replayed > 0, 'refused events were replayed')
  t.ok(report.acknowledged > 5000, 'however slow the machine is')
  t.ok(isClean(report))

  await t.test('one batch sent to two ingest processes at the same time is counted once', async (t) => {
    const distinctId = randomUUID()
    await Promise.all(Array.from({ length: 20 }, async () => await sendToAll(opened.system, distinctId)))
    await waitUntilDrained(opened.system, { timeoutMs: PATIENCE_MS, signal })

    const [counts] = await opened.system.select(
      `SELECT toUInt32(count()) AS rows, toUInt32(uniqExact(uuid)) AS uuids,
         toUInt32((SELECT sum(volume) FROM event_volumes WHERE event = 'sent twice')) AS volume
       FROM events WHERE distinct_id = {distinctId:String}`, { distinctId })
    t.same(counts, { rows: 400, uuids: 400, volume: 400 })
  })
})

/** The same 20 events to each ingest process at once. */
async function sendToAll ({ ingest }: FaultSystem, distinctId: string): Promise<void> {
  const batch = Array.from({ length: 20 }, () => ({ event: 'sent twice', distinct_id: distinctId, uuid: randomUUID() }))
  const body = JSON.stringify({ api_key: FAULT_PROJECT_KEY, batch })
  const statuses = await Promise.all(ingest.map(async ({ port }) => {
    const response = await fetch(`http://127.0.0.1:${port}/batch/`, {
      method: 'POST', headers: { 'content-type': 'application/json' }, body
    })
    await response.arrayBuffer()
    return response.status
  }))
  if (statuses.some((status) => status !== 200)) throw new Error(`got ${statuses.join(', ')}`)
}
