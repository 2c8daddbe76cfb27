import { type Test } from 'tap'
import { type ContractSystem } from './contract-client.ts'
import { insertEvent } from './insert-definition.ts'
import { DATE_TIME, typeOf, typesOf, UUID } from './type-of.ts'

/** Sections 2.1, 2.5 and 4.3: event definitions, and by them the envelope of every list. */
export async function walkEventDefinitions (t: Test, { stack, client }: ContractSystem): Promise<void> {
  await t.test('2.1 Pagination envelope', async (t) => {
    for (const name of ['e1', 'e2', 'e3']) await insertEvent(stack, `page ${name}`)

    const { body: page } = await client.call(t, 'GET', '~/event_definitions?search=page&limit=1&offset=1')

    t.equal(typeOf(page.count), 'integer', 'count')
    t.equal(page.count, 3)
    t.equal(typeOf(page.results), 'array', 'results')
    t.equal(page.results.length, 1)
    for (const [field, offset] of [['next', '2'], ['previous', '0']] as const) {
      const link = new URL(page[field])
      t.equal(link.origin, stack.url.replace(/\/$/, ''), `${field} is absolute, at the origin the client used`)
      t.equal(link.searchParams.get('limit'), '1', `${field} carries limit`)
      t.equal(link.searchParams.get('offset'), offset, `${field} carries offset`)
      t.equal(link.searchParams.get('search'), 'page', `${field} carries other filters`)
      const { body } = await client.call(t, 'GET', link.pathname + link.search)
      t.equal(body.results[0].name, field === 'next' ? 'page e3' : 'page e1', `${field} leads there`)
    }
    const { body: whole } = await client.call(t, 'GET', '~/event_definitions?search=page')
    t.equal(whole.next, null)
    t.equal(whole.previous, null)
  })

  await t.test('2.5 Event definition', async (t) => {
    const id = await insertEvent(stack, 'fields')

    const { body } = await client.call(t, 'GET', `~/event_definitions/${id}/`)

    t.same(typesOf(body), {
      id: 'string', name: 'string', volume_30_day: 'integer', query_usage_30_day: 'integer', created_at: 'string',
      // Null for an event that no roll-up has counted yet, and for what this product does not have (actions).
      last_seen_at: 'null', last_updated_at: 'string', tags: 'array', is_action: 'string', action_id: 'null',
      is_calculating: 'boolean', last_calculated_at: 'null', created_by: 'object', post_to_slack: 'boolean'
    })
    t.match(body.id, UUID, 'id')
    for (const field of ['created_at', 'last_updated_at']) t.match(body[field], DATE_TIME, field)
  })

  await t.test('4.3 Event definitions: every operation', async (t) => {
    const id = await insertEvent(stack, 'operated')
    const changes = {
      name: 'operated on', volume_30_day: 1, query_usage_30_day: 2, created_at: '2026-01-01T00:00:00.000Z',
      last_seen_at: '2026-01-02T00:00:00.000Z', tags: ['a', 'b'], post_to_slack: true
    }

    t.match(await client.call(t, 'GET', '~/event_definitions/?limit=5&offset=0'), { status: 200, body: { count: Number } }, 'list')
    t.match(await client.call(t, 'GET', `~/event_definitions/${id}/`), { status: 200, body: { id } }, 'retrieve')
    t.match(await client.call(t, 'PATCH', `~/event_definitions/${id}/`, changes), { status: 200, body: changes }, 'update')
    t.match(await client.call(t, 'DELETE', `~/event_definitions/${id}/`), { status: 204, body: undefined }, 'delete')
  })
}
