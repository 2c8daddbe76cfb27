import t from 'tap'
import { auditCounts, auditEvents } from './audit/audit-events.ts'
import { describeFailures } from './load-ledger.ts'
import { FAULT_PROJECT_KEY, openFaultSystem } from './system/fault-system.ts'
import { createRandom } from '../support/random.ts'
import { startSdkLoad } from './sdk-load.ts'
import { waitFor } from '../support/wait-for.ts'
import { waitUntilDrained } from './audit/wait-until-recovered.ts'

/** What a tier that is asked to end promises, in milliseconds. */
const MAX_END_MS = 10_000

t.test('a rolling restart of two ingest processes on one port and two pipeline processes fails no request', {
  timeout: 120_000
}, async (t) => {
  const signal = AbortSignal.timeout(110_000)
  await using opened = await openFaultSystem({ signal, sharedPort: true })
  const { system } = opened
  const { ingest, pipeline } = system
  // Nobody in between tries another process: each request that fails is one that a client sees.
  const load = startSdkLoad({
    ports: [ingest[0].port], apiKey: FAULT_PROJECT_KEY, eventsPerSecond: 1000, batchSize: 10, random: createRandom(1)
  })
  const tookMs: Record<string, number> = {}
  try {
    await load.nextAcknowledged()
    for (const part of [...ingest, ...pipeline]) tookMs[part.name] = await part.restart()
    await load.nextAcknowledged()
  } finally {
    await load.stop()
  }
  await waitUntilDrained(system, { timeoutMs: 30_000, signal })
  const audit = await auditEvents(system, load.ledger)

  t.comment(`ended in ${JSON.stringify(tookMs)} ms, ${load.ledger.acknowledgedEvents} events acknowledged`)
  t.ok(load.ledger.acknowledgedEvents > 2000)
  t.same(load.ledger.phases.map(describeFailures), [''], 'no request failed')
  t.same(Object.entries(tookMs).filter(([, ms]) => ms > MAX_END_MS), [], 'each ended in time')
  t.same([audit.lost.size, audit.duplicated.size, audit.strangers], [0, 0, 0])
  await waitFor(async () => (await auditCounts(system)).length === 0, { everyMs: 500 })
})
