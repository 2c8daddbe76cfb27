import type { Test } from 'tap'
import { type ContractSystem, DATE_TIME, insertEvent, insertProperty, typeOf, typesOf, UUID } from './contract-client.ts'

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
      is_calculating: 'boolean', last_calculated_at: 'null', created_by: 'object', post_to_slack: 'boolean',
      // Beyond the contract, under PostHog's names.
      description: 'string', owner: 'null', verified: 'boolean', hidden: 'boolean'
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

/** Sections 2.4 and 4.2: property definitions. */
export async function walkPropertyDefinitions (t: Test, { stack, client }: ContractSystem): Promise<void> {
  await t.test('2.4 Property definition', async (t) => {
    const id = await insertProperty(stack, 'field amount', { property_type: 'Numeric' })

    const { body } = await client.call(t, 'GET', `~/property_definitions/${id}/`)
    const { body: list } = await client.call(t, 'GET', '~/property_definitions/?search=field&event_names=["x"]')

    t.match(body.id, UUID, 'id')
    t.same(typesOf(list.results[0]), {
      id: 'string', name: 'string', is_numerical: 'boolean', query_usage_30_day: 'integer', property_type: 'string',
      tags: 'array', is_seen_on_filtered_events: 'string',
      // Beyond the contract, under PostHog's names.
      created_at: 'string', last_seen_at: 'null', description: 'string', owner: 'null', verified: 'boolean', hidden: 'boolean'
    })
    for (const type of ['DateTime', 'String', 'Numeric', 'Boolean']) {
      const { status, body: changed } = await client.call(t, 'PATCH', `~/property_definitions/${id}/`, { property_type: type })
      t.equal(status, 200)
      t.match(changed, { property_type: type, is_numerical: type === 'Numeric' }, `property_type ${type}`)
    }
  })

  await t.test('4.2 Property definitions: every operation and query parameter', async (t) => {
    await stack.sql`INSERT INTO group_types VALUES (1, 'company', 0)`
    const id = await insertProperty(stack, 'query amount', { property_type: 'Numeric' })
    await insertProperty(stack, '$feature/query')
    await insertProperty(stack, 'query name')
    await insertProperty(stack, 'query person', { type: 'person' })
    await insertProperty(stack, 'query group', { type: 'group', group_type: 'company' })
    await stack.sql`INSERT INTO event_properties VALUES (1, 'paid', 'query name')`
    const names = async (query: string): Promise<string[]> => {
      const { status, body } = await client.call(t, 'GET', `~/property_definitions/?search=query&${query}`)
      t.equal(status, 200, query)
      return body.results.map(({ name }: { name: string }) => name)
    }

    t.same(await names(''), ['$feature/query', 'query amount', 'query name'], 'type defaults to event')
    t.same(await names('event_names=["paid"]'), ['query name', '$feature/query', 'query amount'], 'event_names')
    t.same(await names('event_names=["paid"]&filter_by_event_names=true'), ['query name'], 'filter_by_event_names')
    t.same(await names('excluded_properties=["query name"]'), ['$feature/query', 'query amount'], 'excluded_properties')
    t.same(await names('type=group&group_type_index=0'), ['query group'], 'group_type_index')
    t.same(await names('is_feature_flag=true'), ['$feature/query'], 'is_feature_flag')
    t.same(await names('is_feature_flag=false'), ['query amount', 'query name'], 'is_feature_flag')
    t.same(await names('is_numerical=true'), ['query amount'], 'is_numerical')
    t.same(await names('limit=1&offset=1'), ['query amount'], 'limit and offset')
    t.same(await names('properties=query name,other'), ['query name'], 'properties')
    t.same(await names('type=person'), ['query person'], 'type')
    t.match(await client.call(t, 'GET', `~/property_definitions/${id}/`), { status: 200, body: { id } }, 'retrieve')
    const changes = { name: 'query total', is_numerical: false, query_usage_30_day: 4, tags: ['a'] }
    t.match(await client.call(t, 'PATCH', `~/property_definitions/${id}/`, changes), { status: 200, body: changes }, 'update')
    t.match(await client.call(t, 'DELETE', `~/property_definitions/${id}/`), { status: 204, body: undefined }, 'delete')
  })
}
