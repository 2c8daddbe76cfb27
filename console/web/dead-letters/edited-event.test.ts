import t from 'tap'
import { draftEvent, makeUuid } from './edited-event.ts'

const row = {
  event: 'it\'s "paid"', distinct_id: 'ann', timestamp: '2026-11-22T10:00:00.000Z', uuid: 'old', properties: '{"huge":12345678901234567890123,"a":1}'
}

t.test('a new event is drafted from a dead letter, with its origin and every digit', (t) => {
  const draft = draftEvent({ id: 7, stage: 'writer', content: [row] }, 'new')!

  t.match(JSON.parse(draft), {
    event: row.event, distinct_id: 'ann', timestamp: row.timestamp, uuid: 'new', properties: { $dead_letter_id: 7, $dead_letter_uuid: 'old', a: 1 }
  })
  t.match(draft, '12345678901234567890123')
  t.notMatch(draft, '$ip')
  const ipOf = (properties: string): unknown =>
    JSON.parse(draftEvent({ id: 7, stage: 'schema', content: [{ ...row, ip: '192.0.2.1', properties }] }, 'new')!).properties.$ip
  t.equal(ipOf('{"a":{"$ip":"x"}}'), '192.0.2.1', 'the address of the client goes with it')
  t.equal(ipOf('{"$ip":""}'), '')
  t.match(JSON.parse(draftEvent({ id: 8, stage: 'schema', content: [row] }, 'new')!), { properties: { $dead_letter_id: 8, a: 1 } }, 'from quarantine')
  t.match(JSON.parse(draftEvent({ id: 7, stage: 'writer', content: [{ ...row, properties: '{}' }] }, 'new')!), { properties: { $dead_letter_id: 7 } })
  t.end()
})

t.test('what is not one event cannot be edited so', (t) => {
  for (const content of [null, [], [row, row], { a: 1 }, [{ ...row, properties: 'none' }]]) {
    t.equal(draftEvent({ id: 7, stage: 'writer', content }, 'new'), null)
  }
  t.equal(draftEvent({ id: 7, stage: 'persons', content: [row] }, 'new'), null)
  t.end()
})

t.test('uuids are of version 4', (t) => {
  t.match(makeUuid(), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  t.end()
})
