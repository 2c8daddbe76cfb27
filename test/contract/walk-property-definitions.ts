import { type Test } from 'tap'
import { type ContractSystem } from './contract-client.ts'
import { insertProperty } from './insert-definition.ts'
import { typesOf, UUID } from './type-of.ts'

/** Sections 2.4 and 4.2: property definitions. */
export async function walkPropertyDefinitions (t: Test, { stack, client }: ContractSystem): Promise<void> {
  await t.test('2.4 Property definition', async (t) => {
    const id = await insertProperty(stack, 'field amount', { property_type: 'Numeric' })

    const { body } = await client.call(t, 'GET', `~/property_definitions/${id}/`)
    const { body: list } = await client.call(t, 'GET', '~/property_definitions/?search=field&event_names=["x"]')

    t.match(body.id, UUID, 'id')
    t.same(typesOf(list.results[0]), {
      id: 'string', name: 'string', is_numerical: 'boolean', query_usage_30_day: 'integer', property_type: 'string',
      tags: 'array', is_seen_on_filtered_events: 'string'
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
