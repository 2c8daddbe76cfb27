import t from 'tap'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { migrateClickHouse } from '../../schema/migrate/migrate-clickhouse.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { describeExpression, listPromotedColumns, PROMOTED_TYPES, type PromotedType, readPromotion } from '../../platform/query-log/promoted-column.ts'
import { demoteProperty, promoteProperty } from './promote-property.ts'

/** As the writer does it: the columns are named, and promoted ones are none of them. */
async function insert (client: ClickHouse, properties: readonly string[]): Promise<void> {
  await client.insert({
    table: 'events',
    columns: ['project_id', 'uuid', 'event', 'distinct_id', 'timestamp', 'properties'],
    format: 'JSONEachRow',
    values: properties.map((text) => ({
      project_id: 1, uuid: crypto.randomUUID(), event: 'order', distinct_id: 'ann', timestamp: '2026-03-01 10:00:00', properties: text
    }))
  })
}

async function select<T = Record<string, unknown>> (client: ClickHouse, query: string): Promise<T[]> {
  return await (await client.query({ query, format: 'JSONEachRow' })).json<T>()
}

/** Rows of a query, and the bytes it read by the engine's own statistics. */
async function measure (client: ClickHouse, query: string): Promise<{ rows: unknown[], bytes: number }> {
  const answer = await (await client.query({ query, format: 'JSON' })).json<Record<string, unknown>>()
  return { rows: answer.data, bytes: answer.statistics!.bytes_read }
}

t.test('fills old and new events, in the table and in the view, and reads a tenth of the bytes', async (t) => {
  const { client } = await createTestClickHouse(t)
  const filler = 'x'.repeat(400)
  await client.command({
    query: `INSERT INTO events (project_id, uuid, event, distinct_id, timestamp, properties)
      SELECT 1, generateUUIDv4(), 'order', toString(number), '2026-03-01',
        concat('{"plan":"', ['free', 'pro'][number % 2 + 1], '","text":"${filler}"}')
      FROM numbers(100000)`
  })
  const promotion = readPromotion({ property: 'plan', type: 'String' })
  const query = (value: string, table = 'events'): string =>
    `SELECT ${value} AS plan, count() AS events FROM ${table} WHERE project_id = 1 GROUP BY plan ORDER BY plan`
  const before = await measure(client, query(describeExpression(promotion)))

  const shown: number[] = []
  const onProgress = (filled: number, rows: number): void => { shown.push(filled / rows) }
  const promoted = await promoteProperty(client, promotion, { pollMs: 50, onProgress })
  await insert(client, ['{"plan":"gold"}'])

  const after = await measure(client, query('p_plan'))
  t.match(promoted, { column: 'p_plan', rows: 100_000, filledRows: 100_000 })
  t.equal(shown.at(-1), 1)
  t.same(after.rows, [{ plan: 'free', events: 50000 }, { plan: 'gold', events: 1 }, { plan: 'pro', events: 50000 }])
  t.same(after.rows, (await measure(client, query(describeExpression(promotion)))).rows)
  t.same(after.rows, (await measure(client, query('p_plan', 'events_with_person'))).rows)
  t.ok(after.bytes * 10 < before.bytes, `${before.bytes} bytes before, ${after.bytes} after`)
  t.match(await select(client, "SELECT table, comment FROM system.columns WHERE name = 'p_plan' AND database = currentDatabase()"), [
    { table: 'events', comment: /^Property "plan" as String/ }, { table: 'events_with_person', comment: /^Property "plan" as String/ }])
})

t.test('says of every value what the expression says, whatever was sent', async (t) => {
  const { client } = await createTestClickHouse(t)
  const values = ['5', '-0.25', '"5.5"', 'true', '"true"', 'null', '[1]', '{"a":1}', '"2026-03-01T10:00:00.123+02:00"', '"2026-03-01"',
    '1772359200', '1772359200123', '"5"', '"12 Mar"', '1e400', '12345678901234567890123', '"\\u0000 \\ud800 é"', '""', '"9999-99-99"']
  const texts = [...values.map((value) => `{"x":${value}}`), '', 'no json', '{"x":1,"x":2}', `${'{"x":'.repeat(3000)}`, '[]', '{}']
  await insert(client, texts)

  for (const [index, type] of (Object.keys(PROMOTED_TYPES) as PromotedType[]).entries()) {
    // One property has one column, so that the others are promoted by another name of the same JSON.
    const promotion = readPromotion({ property: 'x', type, column: `p_${type}` })
    await promoteProperty(client, promotion, { pollMs: 20 })
    await insert(client, texts)
    const different = await select(client, `SELECT properties FROM events WHERE NOT (p_${type} <=> ${describeExpression(promotion)})`)
    t.same(different, [], type)
    t.equal((await select(client, 'SELECT 1 FROM events')).length, texts.length * (index + 2))
    if (type === 'DateTime') {
      t.same(await select(client, 'SELECT toString(p_DateTime) AS d FROM events WHERE p_DateTime IS NOT NULL GROUP BY d ORDER BY d'), [
        { d: '2026-03-01 00:00:00.000' }, { d: '2026-03-01 08:00:00.123' }, { d: '2026-03-01 10:00:00.000' }, { d: '2026-03-01 10:00:00.123' }])
    }
    await demoteProperty(client, 'x')
  }
})

t.test('takes any name as a name', async (t) => {
  const { client } = await createTestClickHouse(t)
  const names = ["a'), x Int8 DEFAULT (1", 'b`; DROP TABLE events', 'c\\', '$feature/new-pay', 'd.e', 'tags[]', '{f:String}']
  for (const name of names) {
    await insert(client, [JSON.stringify({ [name]: `value of ${name}` })])
    const promotion = readPromotion({ property: name, type: 'String' })
    await promoteProperty(client, promotion, { pollMs: 20 })
    t.same(await select(client, `SELECT ${promotion.column} AS v FROM events WHERE v != ''`), [{ v: `value of ${name}` }], name)
  }

  t.same((await listPromotedColumns(client)).map(({ property }) => property).sort(), names.sort())
  for (const name of names) t.match(await demoteProperty(client, name), { property: name })
  t.same(await listPromotedColumns(client), [])
  t.equal((await select(client, 'SELECT * FROM events_with_person')).length, names.length)
})

t.test('refuses what would be another thing', async (t) => {
  const { client } = await createTestClickHouse(t)
  const read = (property: string, column?: string): unknown => readPromotion({ property, type: 'String', column })

  t.throws(() => read('$browser'), { code: 'MILLRACE_PROMOTION_REFUSED', message: /browser$/ })
  for (const name of ['', 'a\0b', 'a\nb', 'x'.repeat(201), '日本']) t.throws(() => read(name), { code: 'MILLRACE_PROMOTION_REFUSED' }, name)
  for (const column of ['plan', 'p_', 'p_a b', 'p_a`', 'p_é', `p_${'x'.repeat(63)}`]) t.throws(() => read('plan', column), { code: 'MILLRACE_PROMOTION_REFUSED' }, column)
  t.match(read('日本', 'p_japan'), { column: 'p_japan' })

  await promoteProperty(client, readPromotion({ property: 'order id', type: 'String' }), { pollMs: 20 })
  const refused = { code: 'MILLRACE_PROMOTION_REFUSED' }
  await t.rejects(promoteProperty(client, readPromotion({ property: 'order id', type: 'Float64' })), refused)
  await t.rejects(promoteProperty(client, readPromotion({ property: 'order-id', type: 'String' })), refused)
  await promoteProperty(client, readPromotion({ property: 'order id', type: 'String' }), { pollMs: 20 })
  t.equal(await demoteProperty(client, 'never promoted'), undefined)
})

t.test('knows a column again that has no comment, and migrating shows it in the view', async (t) => {
  const { client, url } = await createTestClickHouse(t)
  await insert(client, ['{"order id":"o1"}'])
  const promotion = readPromotion({ property: 'order id', type: 'String' })
  // As a backup of an earlier version restored it: type and default, and no comment.
  await client.command({
    query: `ALTER TABLE events ADD COLUMN "p_order_id" String DEFAULT ${describeExpression(promotion)}`
  })

  await migrateClickHouse(url, {})

  t.match(await listPromotedColumns(client), [{ property: 'order id', column: 'p_order_id', type: 'String', rows: 1 }])
  t.same(await select(client, 'SELECT p_order_id FROM events_with_person'), [{ p_order_id: 'o1' }])
  await promoteProperty(client, promotion, { pollMs: 20 })
  t.match(await select(client, "SELECT comment FROM system.columns WHERE name = 'p_order_id' AND database = currentDatabase()"), [
    { comment: /^Property "order id"/ }, { comment: /^Property "order id"/ }])
})
