import t from 'tap'
import type { PartitionLease } from '../../stream/partition-lease.ts'
import { FencedError } from '../../stream/partition-records.ts'
import { silentLogger } from '../../testing/start-test-partition.ts'
import { type FramesInsert, INSERT_SETTINGS_VERSION, InsertError } from './insert-frames.ts'
import { storeBatchRange, type StoreBatchRangeOptions, type StoreOutcome } from './store-batch-range.ts'

const OVERLOADED = new InsertError('Code: 202. DB::Exception: Too many simultaneous queries', 202)
const REFUSED = new InsertError('Code: 469. DB::Exception: Constraint', 469)

interface Attempt {
  outcome: StoreOutcome
  inserts: FramesInsert[]
  retries: InsertError[]
}

type Overrides = Partial<Omit<StoreBatchRangeOptions, 'insert'>> &
  { insert?: Partial<StoreBatchRangeOptions['insert']>, isDistributed?: boolean }

/** Stores a batch range on a ClickHouse that answers its inserts with these errors in turn, then takes what comes. */
async function attempt (errors: readonly Error[], overrides: Overrides = {}): Promise<Attempt> {
  const { insert, isDistributed, ...rest } = overrides
  const left = [...errors]
  const inserts: FramesInsert[] = []
  const retries: InsertError[] = []
  const outcome = await storeBatchRange({
    store: {
      isDistributed: isDistributed === true,
      insertFrames: async (insert) => {
        inserts.push(insert)
        const error = left.shift()
        if (error !== undefined) throw error
      }
    },
    lease: { renew: async () => {} } as unknown as PartitionLease,
    insert: {
      frames: [Buffer.from('a frame')], token: 'life:live.0:1-1', requests: [], settingsVersion: INSERT_SETTINGS_VERSION, ...insert
    },
    logger: silentLogger,
    stop: new AbortController().signal,
    abort: new AbortController().signal,
    onRetry: (error) => retries.push(error),
    ...rest
  })
  return { outcome, inserts, retries }
}

t.test('inserts the same again, with the same token, until ClickHouse takes it', async (t) => {
  const { outcome, inserts, retries } = await attempt([OVERLOADED, new InsertError('connection reset', 0)])

  t.same(outcome, { kind: 'stored' })
  t.equal(inserts.length, 3)
  t.same(new Set(inserts.map(({ token }) => token)), new Set(['life:live.0:1-1']))
  t.equal(new Set(inserts.map(({ frames }) => frames)).size, 1)
  t.same(retries.map(({ clickhouseCode }) => clickhouseCode), [202, 0])
})

t.test('a refusal is beyond doubt at the first try only: an earlier one may have been stored', async (t) => {
  t.match((await attempt([REFUSED])).outcome, { kind: 'refused', error: REFUSED, doubtful: false })
  t.match((await attempt([OVERLOADED, REFUSED])).outcome, { kind: 'refused', error: REFUSED, doubtful: true })
})

t.test('of several shards, one may have stored its rows when another refuses: it is asked again, and its refusal stays doubtful', async (t) => {
  const { outcome, inserts } = await attempt([REFUSED, REFUSED], { isDistributed: true })

  t.match(outcome, { kind: 'refused', error: REFUSED, doubtful: true })
  t.same(inserts.map(({ token }) => token), ['life:live.0:1-1', 'life:live.0:1-1'])
  t.match((await attempt([REFUSED], { isDistributed: true })).outcome, { kind: 'stored' })
})

t.test('inserts nothing when another process has the partition', async (t) => {
  const inserted: FramesInsert[] = []
  const lease = { renew: async () => { throw new FencedError('live.0') } }

  await t.rejects(attempt([], {
    lease: lease as unknown as PartitionLease, store: { insertFrames: async (insert) => { inserted.push(insert) } }
  }), FencedError)
  t.same(inserted, [])
})

t.test('leaves the range to the next owner when the process stops while ClickHouse is unavailable', async (t) => {
  const { outcome, inserts } = await attempt([OVERLOADED], { stop: AbortSignal.abort() })

  t.same(outcome, { kind: 'stopped' })
  t.equal(inserts.length, 1, 'what was begun is finished')
})

t.test('takes neither an insert that was abandoned nor a bug for an answer of ClickHouse', async (t) => {
  await t.rejects(attempt([OVERLOADED], { abort: AbortSignal.abort() }), OVERLOADED)
  await t.rejects(attempt([new TypeError('a bug')]), { message: 'a bug' })
  await t.rejects(attempt([], { insert: { settingsVersion: 999 } }), /insert settings 999, which this version does not know/)
})

t.test('a batch range of which every row is deduplicated is stored without an insert', async (t) => {
  t.match(await attempt([REFUSED], { insert: { frames: [] } }), { outcome: { kind: 'stored' }, inserts: [] })
})

t.test('names each request once, and no more than twenty, to the query log', async (t) => {
  const requests = Array.from({ length: 50 }, (_, i) => `r${i % 25}`)

  const [insert] = (await attempt([], { insert: { requests } })).inserts

  t.match(insert?.comment, /^life:live\.0:1-1 requests r0 r1 .* r19 and 5 more$/)
})
