import t from 'tap'
import { createPlainNormaliser } from '../../test/support/plain-normaliser.ts'
import type { RequestContext } from '../event.ts'
import { createTakeEvent } from './take-event.ts'

const context: RequestContext = {
  project: { id: 1, anonymizeIps: false }, requestId: 'r', receivedAt: Date.UTC(2026, 10, 21), sentAt: null, ip: '',
  historical: false,
  visitor: { address: '', userAgent: '' },
  isAttemptTime: false
}

t.test('a bug with one event is reported, counted, and leaves its neighbours alone', async (t) => {
  const normalise = createPlainNormaliser()
  const bug = new Error('a bug')
  const reported: unknown[] = []
  const takeEvent = createTakeEvent({
    normaliseEvent (event, context) {
      if (event.event === 'deadly') throw bug
      return normalise(event, context)
    },
    isAnnounced: () => false,
    maxPayloadBytes: () => 1e6,
    onUnexpected: (error) => reported.push(error)
  })

  const outcomes = ['one', 'deadly', 'two'].map((event) => takeEvent({ event, distinct_id: 'd', $set: { a: 1 } }, context))

  t.match(outcomes, [
    { kind: 'stored', row: { event: 'one' }, updates: { length: 1 } },
    { kind: 'dropped', reason: 'not_storable' },
    { kind: 'stored', row: { event: 'two' }, updates: { length: 1 } }
  ])
  t.same(reported, [bug])
})

t.test('a change that does not fit a message is left out with a warning, the rest of the event counts', async (t) => {
  const takeEvent = createTakeEvent({
    normaliseEvent: createPlainNormaliser(), isAnnounced: () => false, maxPayloadBytes: () => 100_000,
    onUnexpected: (error) => t.fail(String(error))
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

  const outcomes = events.map((event) => takeEvent(event, context))

  t.same(outcomes.map(({ kind }) => kind), ['stored', 'stored', 'stored', 'stored'])
  const updates = outcomes.flatMap((outcome) => outcome.kind === 'stored' ? outcome.updates : [])
    .map(({ text }) => JSON.parse(text) as Record<string, unknown>)
  const origin = { projectId: 1, uuid: String, timestamp: context.receivedAt }
  t.match(updates, [
    { ...origin, kind: 'person', distinctId: 'd' },
    { ...origin, kind: 'merge', distinctId: 'd', otherDistinctId: 'anon', how: 'identify' },
    { ...origin, kind: 'group', groupType: 'g', groupKey: 'k', set: {} },
    { ...origin, kind: 'person', set: { a: 1 } }
  ])
  t.same(updates.map((update) => 'set' in update || 'setOnce' in update), [false, false, true, true])
  t.same(outcomes.map(({ warnings }) => warnings.map(({ reason }) => reason)),
    [['column_cut', 'properties_too_large'], ['column_cut', 'properties_too_large'], ['properties_too_large'], ['column_cut']])
  t.match(outcomes[0]?.warnings[1]?.value(), /^a change of 100\d{3} bytes/)
})

t.test('each way to be no event has its reason', async (t) => {
  const takeEvent = createTakeEvent({
    normaliseEvent: createPlainNormaliser(), isAnnounced: () => false, maxPayloadBytes: () => 1e6,
    onUnexpected: (error) => t.fail(String(error))
  })
  const cases: [unknown, string][] = [
    [null, 'not_an_object'], ['text', 'not_an_object'], [[], 'not_an_object'], [{}, 'missing_event_name'],
    [{ event: null, distinct_id: 'd' }, 'missing_event_name'], [{ event: '', distinct_id: 'd' }, 'missing_event_name'],
    [{ event: {}, distinct_id: 'd' }, 'invalid_event_name'], [{ event: 'e', distinct_id: 'd', properties: 'text' }, 'invalid_properties'],
    [{ event: 'e' }, 'missing_distinct_id'], [{ event: 'e', distinct_id: null }, 'missing_distinct_id']
  ]

  for (const [event, reason] of cases) t.match(takeEvent(event, context), { kind: 'dropped', reason }, JSON.stringify(event))
})
