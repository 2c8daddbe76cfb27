import t from 'tap'
import { createPlainNormaliser } from '../../test/support/plain-normaliser.ts'
import type { EventRow, RequestContext } from '../event.ts'
import type { EncodedUpdate } from '../publish/persons-partitions.ts'
import { createTakeEvent, type EventSink } from './take-event.ts'

const context: RequestContext = {
  project: { id: 1, anonymizeIps: false }, requestId: 'r', receivedAt: Date.UTC(2026, 10, 21), sentAt: null, ip: '',
  historical: false,
  visitor: { address: '', userAgent: '' },
  warnings: null,
  isAttemptTime: false
}

function createSink (): EventSink & { rows: EventRow[], updates: EncodedUpdate[] } {
  const rows: EventRow[] = []
  const updates: EncodedUpdate[] = []
  return {
    rows, updates,
    appendRow: (row) => { rows.push(row) },
    quarantine: () => { throw new Error('no schema is active') },
    appendUpdate: (update) => { updates.push(update) },
    isAnnounced: () => false
  }
}

t.test('a bug with one event is told, counted, and leaves its neighbours alone', async (t) => {
  const normalise = createPlainNormaliser()
  const bug = new Error('a bug')
  const told: unknown[] = []
  const takeEvent = createTakeEvent((event, context) => {
    if (event.event === 'deadly') throw bug
    return normalise(event, context)
  }, { maxPayloadBytes: () => 1e6, onUnexpected: (error) => told.push(error) })
  const sink = createSink()

  const outcomes = ['one', 'deadly', 'two'].map((event) => takeEvent({ event, distinct_id: 'd', $set: { a: 1 } }, context, sink))

  t.same(outcomes, [null, 'not_storable', null])
  t.same(told, [bug])
  t.same(sink.rows.map(({ event }) => event), ['one', 'two'])
  t.equal(sink.updates.length, 2)
})

t.test('a change that does not fit a message is left out with a warning, the rest of the event counts', async (t) => {
  const takeEvent = createTakeEvent(createPlainNormaliser(), {
    maxPayloadBytes: () => 100_000, onUnexpected: (error) => t.fail(String(error))
  })
  // Once in the event, twice in the update: of the page now, and of the first one.
  const large = { $current_url: 'é'.repeat(25_000) }
  const events = [
    { event: 'e', distinct_id: 'd', properties: { ...large, $set: { a: 1 } } },
    { event: '$identify', distinct_id: 'd', properties: { ...large, $anon_distinct_id: 'anon' } },
    {
      event: '$groupidentify', distinct_id: 'd',
      properties: { $group_type: 'g', $group_key: 'k', $group_set: { text: 'é'.repeat(50_000) } }
    },
    { event: 'e', distinct_id: 'd', properties: { $current_url: 'é'.repeat(20_000), $set: { a: 1 } } }
  ]
  const sink = createSink()
  const noted: RequestContext = { ...context, warnings: null }

  t.same(events.map((event) => takeEvent(event, noted, sink)), [null, null, null, null])

  t.equal(sink.rows.length, 4)
  const updates = sink.updates.map(({ text }) => JSON.parse(text) as Record<string, unknown>)
  const origin = { projectId: 1, uuid: String, timestamp: context.receivedAt }
  t.match(updates, [
    { ...origin, kind: 'person', distinctId: 'd' },
    { ...origin, kind: 'merge', distinctId: 'd', otherDistinctId: 'anon', how: 'identify' },
    { ...origin, kind: 'group', groupType: 'g', groupKey: 'k', set: {} },
    { ...origin, kind: 'person', set: { a: 1 } }
  ])
  t.same(updates.map((update) => 'set' in update || 'setOnce' in update), [false, false, true, true])
  t.same(noted.warnings?.counts, { column_cut: 3, properties_too_large: 3 })
  const sample = noted.warnings?.samples.find(({ reason }) => reason === 'properties_too_large')?.sample
  t.match(sample?.value, /^a change of 100\d{3} bytes/)
})

t.test('each way to be no event has its reason', async (t) => {
  const normalise = createPlainNormaliser()
  const takeEvent = createTakeEvent(normalise, {
    maxPayloadBytes: () => 1e6, onUnexpected: (error) => t.fail(String(error))
  })
  const cases: [unknown, string][] = [
    [null, 'not_an_object'], ['text', 'not_an_object'], [[], 'not_an_object'], [{}, 'missing_event_name'],
    [{ event: null, distinct_id: 'd' }, 'missing_event_name'], [{ event: '', distinct_id: 'd' }, 'missing_event_name'],
    [{ event: {}, distinct_id: 'd' }, 'invalid_event_name'], [{ event: 'e', distinct_id: 'd', properties: 'text' }, 'invalid_properties'],
    [{ event: 'e' }, 'missing_distinct_id'], [{ event: 'e', distinct_id: null }, 'missing_distinct_id']
  ]
  const sink = createSink()

  for (const [event, reason] of cases) t.equal(takeEvent(event, context, sink), reason, JSON.stringify(event))
  t.same([sink.rows, sink.updates], [[], []])
})
