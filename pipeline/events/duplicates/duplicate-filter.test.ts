import { randomInt, randomUUID } from 'node:crypto'
import t from 'tap'
import type { PlainEvent } from '../../../test/support/event-block.ts'
import { makeEvent, makeEvents, TEST_KEY } from '../../testing/publish-events.ts'
import { createDuplicateFilter, type DuplicateFilter } from './duplicate-filter.ts'
import { FingerprintMemory } from './fingerprint-memory.ts'
import type { EventIdentity, LookUpEvents } from './look-up-events.ts'
import type { StoredUuids } from './stored-uuids.ts'
import { send, rangeOf, keptOf, eventsOf } from './testing/sent-messages.ts'

const DAY_MS = 86_400_000

/** What ClickHouse would hold, and what the plain model says of the same events: compared pair by pair, no hashes. */
class Store {
  readonly events: PlainEvent[] = []
  asked = 0

  has (event: PlainEvent): boolean {
    return this.events.some((other) => isSame(event, other))
  }

  readonly lookUp: LookUpEvents = async (identities: readonly EventIdentity[]) => {
    this.asked += identities.length
    return identities.map((identity) => this.has({
      ...makeEvent(),
      project_id: identity.projectId,
      uuid: uuidOf(identity.uuidHex),
      event: Buffer.from(identity.event).toString(),
      distinct_id: Buffer.from(identity.distinctId).toString(),
      timestamp: identity.day * DAY_MS
    }))
  }
}

function isSame (a: PlainEvent, b: PlainEvent): boolean {
  const day = (event: PlainEvent): number => Math.floor(event.timestamp / DAY_MS)
  return a.project_id === b.project_id && a.uuid === b.uuid && a.event === b.event && a.distinct_id === b.distinct_id &&
    Math.abs(day(a) - day(b)) <= 1
}

function uuidOf (nativeHex: string): string {
  const bytes = Buffer.from(nativeHex, 'hex')
  const hex = Buffer.concat([bytes.subarray(0, 8).reverse(), bytes.subarray(8).reverse()]).toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

/** Knows the uuids that are stored now, and takes some others for them. */
function readUuids (store: Store): Pick<StoredUuids, 'knows' | 'findRows'> {
  const stored = new Set(store.events.map(({ uuid }) => uuid))
  return {
    knows: () => true,
    findRows: async (message) => new Set(eventsOf.get(message)!.flatMap(({ uuid }, row) =>
      stored.has(uuid) || randomInt(5) === 0 ? [row] : []))
  }
}

/** A few uuids, names, ids, projects and days, so that most events resemble an earlier one and many equal it. */
function createRandomEvent (): () => PlainEvent {
  const uuids = Array.from({ length: 12 }, () => randomUUID())
  const pick = <T>(values: readonly T[]): T => values[randomInt(values.length)]!
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  return () => makeEvent({
    uuid: pick(uuids),
    project_id: pick([1, 1, 1, 2]),
    event: pick(['paid', 'paid', 'seen']),
    distinct_id: pick(['a', 'a', 'ab', 'b']),
    timestamp: today + pick([-2, -1, 0, 0, 0, 1, 2]) * DAY_MS + randomInt(DAY_MS)
  })
}

t.test('decides as a plain comparison with all that is stored would, through crashes and changes of owner', async (t) => {
  for (let run = 0; run < 40; run++) {
    const store = new Store()
    const randomEvent = createRandomEvent()
    // A new owner reads stored events; sometimes without the secret.
    const takeOver = (): DuplicateFilter => {
      // Sometimes the memory reaches back nowhere, and the uuids that were stored before are known instead.
      const isCovered = randomInt(2) === 0
      const memory = new FingerprintMemory(isCovered ? 0 : Date.now() + DAY_MS, { keyId: TEST_KEY.id })
      const uuids = readUuids(store)
      if (!isCovered) {
        const deps = { memory, lookUpEvents: store.lookUp, onLookUp: () => {} }
        return createDuplicateFilter(randomInt(3) > 0 ? { ...deps, uuids } : deps)
      }
      const { message } = send(store.events.length === 0 ? [makeEvent()] : store.events, randomInt(3) > 0)
      if (store.events.length > 0) memory.addRows(message, [0, store.events.length])
      return createDuplicateFilter({ memory, lookUpEvents: store.lookUp, onLookUp: () => {} })
    }
    let filter = takeOver()
    for (let step = 0; step < 15; step++) {
      const batch = Array.from({ length: randomInt(1, 4) }, () =>
        send(Array.from({ length: randomInt(1, 9) }, randomEvent), randomInt(4) > 0))
      const messages = batch.map(({ message }) => message)
      const deduplicated = await filter.decide(messages, { lookUpAll: randomInt(5) === 0 })

      const expected: PlainEvent[] = []
      for (const event of batch.flatMap(({ events }) => events)) {
        if (!store.has(event) && !expected.some((other) => isSame(event, other))) expected.push(event)
      }
      const kept = keptOf(batch, deduplicated)
      t.same(kept, expected)

      const outcome = randomInt(5)
      // It died before the insert: nothing is stored, the record is repeated by the next owner.
      if (outcome === 0) filter = takeOver()
      store.events.push(...kept)
      // It died after the insert and before it remembered; else the range is confirmed.
      if (outcome === 1) filter = takeOver()
      filter.remember(messages, rangeOf(batch, deduplicated))
    }
  }
})

t.test('a row is no duplicate of one that is itself a duplicate, even where memory cannot compare', async (t) => {
  const store = new Store()
  const filter = createDuplicateFilter({
    memory: new FingerprintMemory(0), lookUpEvents: store.lookUp, onLookUp: () => {}
  })
  const [first, dayBefore, twoDaysBefore] = [0, 1, 2].map((days) =>
    makeEvent({ uuid: '018bcfe5-687b-7000-8000-000000000001', timestamp: Date.now() - days * DAY_MS })) as [PlainEvent, PlainEvent, PlainEvent]
  const batch = [send([first], false), send([dayBefore, twoDaysBefore])]

  const deduplicated = await filter.decide(batch.map(({ message }) => message), { lookUpAll: false })

  t.same(keptOf(batch, deduplicated), [first, twoDaysBefore])
})

t.test('remembers nothing of a batch that was not stored', async (t) => {
  const store = new Store()
  const filter = createDuplicateFilter({
    memory: new FingerprintMemory(0), lookUpEvents: store.lookUp, onLookUp: () => {}
  })
  const events = makeEvents(10)

  t.same(await filter.decide([send(events).message], { lookUpAll: false }), [])
  t.same(await filter.decide([send(events).message], { lookUpAll: false }), [], 'the first was refused, or a crash came')
})

t.test('decides duplicates of a large batch in memory, and asks ClickHouse about a handful of them', async (t) => {
  const store = new Store()
  const filter = createDuplicateFilter({
    memory: new FingerprintMemory(0), lookUpEvents: store.lookUp, onLookUp: () => {}
  })
  const events = makeEvents(1000)
  const first = send(events)
  filter.remember([first.message], rangeOf([first], await filter.decide([first.message], { lookUpAll: false })))
  store.events.push(...events)

  const again = [send(events), send([...makeEvents(5), ...events])]
  const deduplicated = await filter.decide(again.map(({ message }) => message), { lookUpAll: false })

  t.same(deduplicated, [[again[0]!.message.sequence, [0, 1000]], [again[1]!.message.sequence, [5, 1005]]])
  t.ok(store.asked > 0 && store.asked < 50, `${store.asked} asked`)
})

t.test('a sample finds truncated messages beside repeats of events that are still stored', async (t) => {
  const store = new Store()
  const filter = createDuplicateFilter({
    memory: new FingerprintMemory(0), lookUpEvents: store.lookUp, onLookUp: () => {}
  })
  const [kept, removed] = [makeEvents(150), makeEvents(30)]
  const first = send([...kept, ...removed])
  filter.remember([first.message], rangeOf([first], []))
  store.events.push(...kept)
  const batch = [kept.slice(0, 50), kept.slice(50, 100), removed, kept.slice(100)].map((events) => send(events))
  const deduplicated = await filter.decide(batch.map(({ message }) => message), { lookUpAll: false })
  t.same(keptOf(batch, deduplicated), removed)
})

t.test('looks old events up while another process may store them in the other class', async (t) => {
  const uuids = {
    knows: (_madeSince: number, confirmedBefore: number) => confirmedBefore < Infinity,
    findRows: async () => new Set<number>()
  }
  const store = new Store()
  const filter = createDuplicateFilter({
    memory: new FingerprintMemory(Date.now() + DAY_MS, { keyId: TEST_KEY.id }),
    lookUpEvents: store.lookUp,
    onLookUp: () => {},
    uuids,
    confirmedElsewhere: () => Infinity
  })

  await filter.decide([send(makeEvents(7)).message], { lookUpAll: false })

  t.equal(store.asked, 7)
})
