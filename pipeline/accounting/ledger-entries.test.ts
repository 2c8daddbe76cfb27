import t from 'tap'
import { type LedgerEntry, ledgerKey, type PartitionLedger } from '../../schema/wire/ledger.ts'
import { createRandom } from '../../test/support/random.ts'
import { newPartitionRecord, type PartitionRecord } from '../stream/partition-records.ts'
import { ServerClockEstimate } from './ingest-entries.ts'
import { addToLedger, carryLedger, type LedgerCounts, closeEntries } from './ledger-entries.ts'

const PARTITION = { eventClass: 'live', number: 3 } as const
const MINUTE_MS = 60_000

/** The table: the highest totals of each key and source. */
type Table = Map<string, LedgerEntry>

function write (table: Table, { entries }: PartitionLedger): void {
  for (const [key, entry] of Object.entries(entries)) {
    const at = `${key} ${entry.source}`
    const old = table.get(at) ?? entry
    table.set(at, {
      source: entry.source,
      accepted: Math.max(old.accepted, entry.accepted),
      replayed: Math.max(old.replayed, entry.replayed),
      duplicates: Math.max(old.duplicates, entry.duplicates),
      deadLettered: Math.max(old.deadLettered, entry.deadLettered)
    })
  }
}

/** Accepted events by key: those of the table, and those of the record that are not in it yet. */
function readAll (table: Table, record: PartitionRecord): Record<string, number> {
  const all = new Map(table)
  write(all, record.ledger)
  const sums: Record<string, number> = {}
  for (const [at, { accepted }] of all) {
    const key = at.split(' ')[0]!
    sums[key] = (sums[key] ?? 0) + accepted
  }
  return sums
}

function countsOf (key: string, accepted: number): LedgerCounts {
  return new Map([[key, { accepted, replayed: 0, duplicates: 0, deadLettered: 0 }]])
}

function emptyRecord (openedAt = 0): PartitionRecord {
  return { ...newPartitionRecord('life'), ledger: { openedAt, entries: {} } }
}

t.test('table and record hold what a plain count holds, whatever is written late, twice, pruned, or forgotten in a crash', async (t) => {
  const random = createRandom(7)
  const below = (bound: number): number => Math.floor(random() * bound)
  const table: Table = new Map()
  const plain: Record<string, number> = {}
  let record = emptyRecord()
  const old: PartitionLedger[] = []
  let now = 100 * MINUTE_MS

  for (let sequence = 1; sequence <= 2000; sequence++) {
    // Late events of any minute come, too.
    const key = ledgerKey(1 + below(2), Math.floor(now / MINUTE_MS) - (below(8) === 0 ? below(20) : 0))
    const events = 1 + below(5)
    const ledger = addToLedger(PARTITION, record, countsOf(key, events))
    // A crash before the record is written: the next owner does the same again.
    if (below(10) === 0) continue
    record = { ...record, done: sequence, ledger }
    plain[key] = (plain[key] ?? 0) + events
    old.push(ledger)
    if (below(6) === 0) write(table, old[below(old.length)]!)
    if (below(5) === 0) {
      const isWritten = (each: string, entry: LedgerEntry): boolean =>
        table.get(`${each} ${entry.source}`)?.accepted === entry.accepted
      record = { ...record, ledger: closeEntries(record.ledger, { now, isWritten, isCrowded: below(3) === 0 }) }
    }
    if (below(50) === 0) {
      record = { ...newPartitionRecord(`life~${sequence}`), done: 0, ledger: carryLedger(record, now) }
    }
    now += below(20_000)
  }

  t.same(readAll(table, record), plain)
  t.ok(Object.keys(record.ledger.entries).length < 60, 'the record stays small')
})

t.test('an entry leaves the record when the table has it and its minute is over, or when there are too many', async (t) => {
  const record = emptyRecord()
  const counts = new Map([...countsOf(ledgerKey(1, 90), 1), ...countsOf(ledgerKey(1, 100), 1)])
  const ledger = addToLedger(PARTITION, record, counts)
  const prune = (isWritten: boolean, isCrowded = false): string[] =>
    Object.keys(closeEntries(ledger, { now: 100 * MINUTE_MS, isWritten: () => isWritten, isCrowded }).entries)

  t.same(prune(false), ['1:90', '1:100'])
  t.same(prune(true), ['1:100'])
  t.same(prune(true, true), [])
  t.same(prune(false, true), ['1:90', '1:100'])
})

t.test('books open again where an insert was under way when the stream was lost', async (t) => {
  const record = { ...emptyRecord(5), done: 7 }

  t.match(carryLedger(record, 100 * MINUTE_MS), { openedAt: 5 })
  t.match(carryLedger({ ...record, range: {} }, 100 * MINUTE_MS), { openedAt: 102 })
})

const START = Date.UTC(2026, 10, 23)

t.test('messages that come late do not make the clock slow', async (t) => {
  const clock = new ServerClockEstimate()
  clock.hear(START, 5)
  clock.hear(START + 995, 1010)
  // Stored at 2 s, delivered after an election.
  clock.hear(START + 2000, 12_000)

  t.equal(clock.now(12_000), START + 11_995)
  t.equal(clock.atLeast(12_000), START + 2000)

  clock.hear(START + 31_000, 31_005)
  clock.hear(START + 55_000, 62_000)
  t.equal(clock.now(62_000), START + 61_995, 'nor does the first one of a new span')
})

t.test('a clock that goes back is followed, ahead or not; for a minute ages are too large rather than too small', async (t) => {
  const clock = new ServerClockEstimate()
  clock.hear(START, 0)
  clock.hear(START + 3_600_000, 1000)
  t.equal(clock.now(1000), START + 3_600_000)

  clock.hear(START + 2000, 2000)
  t.equal(clock.now(2000), START + 3_601_000)
  t.equal(clock.atLeast(2000), START + 2000)

  clock.hear(START + 31_500, 31_500)
  clock.hear(START + 61_600, 61_600)
  t.equal(clock.now(61_600), START + 61_600)
})

t.test('nothing heard is the own clock', async (t) => {
  t.equal(new ServerClockEstimate().now(7), 7)
})
