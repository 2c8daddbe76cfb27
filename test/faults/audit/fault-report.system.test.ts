import t from 'tap'
import type { EventAudit } from './audit-events.ts'
import { chooseExitStatus, isClean, renderReport, type FaultReport, type FaultRow } from './fault-report.ts'
import type { Fault } from '../kinds/fault.ts'
import { createSchedule } from '../run-faults.ts'
import { createRandom } from '../../support/random.ts'

const HELD: EventAudit = {
  lost: new Map(), duplicated: new Map(), deadLettered: new Map(), strangers: 0, unacknowledgedStored: 0,
  examples: []
}

t.test('a run that left a fault out is neither a pass nor a failure: its last line and its status say so', async (t) => {
  const complete = makeReport([row({ name: 'nats-kill', injected: 1 })])
  const late = makeReport([row({ name: 'nats-kill', injected: 1 }), row({ name: 'nats-pause' })])
  const withoutRoot = makeReport([row({ name: 'disk-full', notRun: 'only root can mount a small disk' })])
  const lying = { ...complete, receipts: { asked: 1, wrong: new Map([[null, 1]]), examples: ['unknown, not stored: x'] } }
  const spoilt = { ...late, problems: ['2 events, but volumes sum up to 3'] }

  const unchanged = { ...complete, schemas: { ...complete.schemas, changes: 0 } }

  t.same([complete, late, withoutRoot, spoilt, lying, unchanged].map(chooseExitStatus), [0, 3, 3, 1, 1, 1])
  t.match(renderReport(complete), /\nschemas: 5 changes \(1 not confirmed\), version 6 is active; ingest 0 has 6\n/)
  t.match(renderReport(lying), /1 receipts asked for, 1 wrong\n {2}unknown, not stored: x\n/)
  t.equal(lastLine(complete), 'clean: nothing lost, nothing twice, all counts equal, books balance')
  t.match(lastLine(late), /^clean.*; NOT COMPLETE: 1 of 2 faults were not run$/)
  t.match(renderReport(late), /NOT RUN: nats-pause: the time was over\n/)
  t.match(renderReport(withoutRoot), /NOT RUN: disk-full: only root can mount a small disk\n/)
  t.match(lastLine(spoilt), /^NOT CLEAN; NOT COMPLETE: 1 of 2 faults/)
})

t.test('of a time that is too short for all, long faults give way; each comes once when that is wanted', async (t) => {
  const faults = [lasting('long', 20_000), ...Array.from({ length: 8 }, (_, index) => lasting(`short ${index}`, 1000))]

  const short = schedule(faults, { durationMs: 12_000, eachOnce: false })
  t.same([...new Set(short)].sort(), faults.slice(1).map(({ name }) => name), 'all short ones')
  const all = schedule(faults, { durationMs: 1, eachOnce: true })
  t.same(all.sort(), faults.map(({ name }) => name).sort(), 'each once, however long that takes')
  t.ok(schedule(faults, { durationMs: 90_000, eachOnce: true }).length > faults.length, 'more rounds while there is time')
})

/** The names in order, on a clock that only the faults move. */
function schedule (faults: readonly Fault[], limits: { durationMs: number, eachOnce: boolean }): string[] {
  let now = 0
  const names: string[] = []
  for (const fault of createSchedule(faults, { ...limits, isLong: false, random: createRandom(3) }, () => now)) {
    names.push(fault.name)
    now += fault.lastsMs[1]
  }
  return names
}

function lasting (name: string, ms: number): Fault {
  return { name, what: name, lastsMs: [ms, ms], inject: async () => async () => {} }
}

t.test('a watermark that goes back is no difference on a cluster of ClickHouse alone', async (t) => {
  const report = makeReport([])
  const wentBack = { ...report, watermark: { ...report.watermark, wentBack: 1 } }
  t.equal(isClean(wentBack), false)
  t.equal(isClean({ ...wentBack, mayGoBack: true }), true)
  const stale = { ...report, watermark: { ...report.watermark, staleReads: 1 } }
  t.equal(isClean(stale), false)
  t.equal(isClean({ ...stale, mayGoBack: true }), true)
})

function makeReport (rows: FaultRow[]): FaultReport {
  return {
    rows, eventsPerSecond: 1, acknowledged: 10, sent: 10, givenUp: 0, audits: [HELD],
    books: { drift: 0, compared: 10, problems: [] }, replayed: 0,
    receipts: { asked: 1, wrong: new Map(), examples: [] },
    watermark: { samples: 1, moves: 1, wentBack: 0, staleReads: 0, passed: new Map(), claims: new Map(), examples: [] },
    schemas: { changes: 5, refused: 1, active: 6, versions: [{ process: 'ingest 0', version: 6 }], problems: [] },
    problems: [], surprises: []
  }
}

function row (fields: Partial<FaultRow>): FaultRow {
  return {
    name: '', what: '', notRun: null, injected: 0, acknowledged: 0, retries: 0, lost: 0, duplicated: 0, deadLettered: 0,
    drift: 0, passed: 0, wrongReceipts: 0, schemaChanges: 0, longestStallMs: 0, recoveryMs: 0, phases: [], ...fields
  }
}

function lastLine (report: FaultReport): string {
  return renderReport(report).trimEnd().split('\n').at(-1) ?? ''
}
