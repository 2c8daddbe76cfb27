import t from 'tap'
import { describeDeletion, describeId, describeSetting, listProperties, type Person, type PersonHistory } from './person.ts'

const PERSON: Person = {
  id: 'u', uuid: 'u', name: 'ann', distinct_ids: ['ann'], is_identified: true, created_at: '2026-01-01T00:00:00Z',
  properties: { plan: 'pro', address: { city: 'Ulm', zip: 1 }, since: 5 }
}
const setting = (name: string, value: string, how: '$set' | '$set_once' = '$set'): PersonHistory['properties'][number] =>
  ({ name, value, how, uuid: 'e', event: 'signed up', at: '2026-01-02T03:04:05.000Z', received_at: '2026-01-02T03:04:06.000Z' })

t.test('properties are shown with the event that set them, or why there is none', async (t) => {
  const history = {
    properties: [setting('plan', '"free"'), setting('address', '{"zip": 1, "city": "Ulm"}', '$set_once'), setting('other', '1')]
  } as unknown as PersonHistory

  const shown = listProperties(PERSON, history)

  t.same(shown.map(({ name, text }) => [name, text]), [['address', '{"city":"Ulm","zip":1}'], ['plan', 'pro'], ['since', '5']])
  t.same(shown.map((each) => describeSetting(each, true)), [
    'first sent 2026-01-02 03:04:05 UTC', 'set 2026-01-02 03:04:05 UTC, to another value than now',
    'no stored event sets it: the event is gone, or it came by a merge'
  ])
  t.equal(describeSetting(listProperties(PERSON, undefined)[0]!, false), '', 'nothing is said before it is known')
})

t.test('of several events of one request, the one that fits is taken; of several requests, the last', async (t) => {
  const chosen = (properties: PersonHistory['properties']): unknown =>
    listProperties({ ...PERSON, properties: { plan: 'pro' } }, { properties } as unknown as PersonHistory)[0]?.setting?.uuid
  const at = (uuid: string, value: string, second: number, how: '$set' | '$set_once' = '$set'): PersonHistory['properties'][number] =>
    ({ ...setting('plan', value, how), uuid, received_at: `2026-01-02T03:04:0${second}.000Z` })

  t.equal(chosen([at('a', '"free"', 5), at('b', '"pro"', 5)]), 'b')
  t.equal(chosen([at('a', '"free"', 6), at('b', '"pro"', 5)]), 'a')
  t.equal(chosen([at('once', '"pro"', 1, '$set_once'), at('a', '"free"', 6)]), 'a')
  t.equal(chosen([at('once', '"pro"', 1, '$set_once')]), 'once')
  t.equal(chosen([]), undefined)
})

t.test('ids say how they came', async (t) => {
  t.equal(describeId({ distinct_id: 'a', since: '2026-01-02T03:04:05.000Z', is_first: false }), 'joined 2026-01-02 03:04:05 UTC')
  t.equal(describeId({ distinct_id: 'a', since: null, is_first: true }), 'the first, since the beginning')
})

t.test('a deletion says how far it has come', async (t) => {
  const deletion = { id: 1, person: 'u', with_events: true, requested_at: '2026-01-01T00:00:00Z', done_at: null, swept_at: null }
  t.match(describeDeletion(deletion), /^Being deleted from ClickHouse: the person and its events/)
  t.match(describeDeletion({ ...deletion, done_at: 'x' }), /on its way/)
  t.match(describeDeletion({ ...deletion, done_at: 'x', swept_at: 'y', with_events: false }), /^Deleted: the person\./)
})
