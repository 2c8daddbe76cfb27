import t from 'tap'
import { isClean, renderReport } from './fault-report.ts'
import { FAULTS } from './faults.ts'
import { openFaultSystem } from './open-fault-system.ts'
import { createRandom } from './random.ts'
import { runFaults } from './run-faults.ts'

/** Some of each group that are over soon; `npm run faults` runs all of them, and longer. */
const NAMES = [
  'ingest-kill', 'pipeline-kill', 'clickhouse-kill', 'nats-kill', 'rolling-restart',
  'nats-reset', 'postgres-torn',
  'clickhouse-busy', 'clickhouse-lost-answer',
  'stream-full',
  'poisoned-message', 'refused-rows',
  'clock-back'
]

/** The same order of faults in each run; another one finds other things, by `npm run faults`. */
const SEED = 2

t.test('kills, breaks and fills a running system under load, and finds every event once', { timeout: 240_000 }, async (t) => {
  const signal = AbortSignal.timeout(220_000)
  await using opened = await openFaultSystem({ signal })
  const report = await runFaults(opened.system, {
    faults: FAULTS.filter(({ name }) => NAMES.includes(name)),
    durationMs: 1, eachOnce: true, isLong: false, eventsPerSecond: 800, random: createRandom(SEED), disk: null, signal,
    onProgress: (line) => t.comment(line)
  })

  t.comment(renderReport(report))
  t.same(report.rows.map(({ name, injected }) => [name, injected]).sort(), NAMES.map((name) => [name, 1]).sort())
  t.same(report.problems, [], 'views, definitions and persons agree with events, and each fault took place')
  for (const audit of report.audits) {
    t.equal(audit.lost.size, 0, 'nothing acknowledged is lost')
    t.equal(audit.duplicated.size, 0, 'nothing is stored twice')
    t.equal(audit.strangers, 0, 'nothing is stored that was never sent')
  }
  t.ok(report.replayed > 0, 'refused events were replayed')
  t.ok(report.acknowledged > 20_000)
  t.ok(report.rows.some(({ retries }) => retries > 0), 'clients noticed something')
  t.ok(isClean(report))
})
