import t from 'tap'
import { anonymiseEvent, anonymiseValue } from './anonymise.ts'
import { toErasedIds } from './erased-ids.ts'

const BY = { ids: { jo: 'r1', 12: 'r2', __proto__x: 'r3' }, removed: ['email', '$ip'] }

t.test('ids become random ones at every depth, and chosen properties go', async (t) => {
  t.same(anonymiseValue({
    user: 'jo', text: 'about jo', list: ['jo', { jo: 1 }], distinct_id: 12, amount: 12, $set: { email: 'jo@example.com', alias: 'jo' }
  }, BY), {
    user: 'r1', text: 'about jo', list: ['r1', { r1: 1 }], distinct_id: 'r2', amount: 12, $set: { alias: 'r1' }
  })
})

t.test('the columns of an event follow', async (t) => {
  const row = {
    uuid: 'u', distinct_id: 'jo', properties: '{"$ip":"1.2.3.4","email":"jo@example.com","n":12345678901234567890,"$device_id":"jo"}',
    property_types: 'eS$ip\0eSemail\0gSteam\x01email\0?n', groups: { user: 'jo', team: 'a' }, ip: '1.2.3.4', device_id: 'jo', host: 'example.com'
  }
  t.match(anonymiseEvent(row, BY), {
    uuid: 'u', distinct_id: 'r1', properties: '{"n":12345678901234567890,"$device_id":"r1"}',
    property_types: 'gSteam\x01email\0?n', groups: { user: 'r1', team: 'a' }, ip: '', device_id: 'r1', host: 'example.com'
  })
})

t.test('an id that is the name of a property is replaced in the list of names, too', async (t) => {
  const row = { distinct_id: 'jo', properties: '{"jo":true}', property_types: 'eBjo\0pSjo\0gSjo\x01jo\0eSjoe', groups: { jo: 'jo' } }
  t.match(anonymiseEvent(row, BY), {
    properties: '{"r1":true}', property_types: 'eBr1\0pSr1\0gSr1\x01r1\0eSjoe', groups: { r1: 'r1' }
  })
})

t.test('a project may have any number of erasures', async (t) => {
  const rows = Array.from({ length: 200_000 }, (_, at) =>
    ({ project_id: 1, salt: 's', hashes: [`h${at}`], requested_at: new Date(at) }))
  const erased = toErasedIds(rows).get(1)
  t.same([erased?.latest, erased?.at.size], [199_999, 200_000])
})
