import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'

const FILE = path.join(import.meta.dirname, 'data-dictionary.md')

interface Table {
  name: string
  engine: string
  comment: string
}

interface Column {
  table: string
  name: string
  type: string
  comment: string
}

async function select<T> (client: ClickHouse, query: string): Promise<T[]> {
  return await (await client.query({ query, format: 'JSONEachRow' })).json<T>()
}

async function readTables (client: ClickHouse): Promise<Table[]> {
  return await select<Table>(client, `
    SELECT name, engine, comment FROM system.tables
    WHERE database = currentDatabase() AND engine != 'MaterializedView' AND NOT startsWith(name, '.')
    ORDER BY name = 'events' DESC, engine = 'View' DESC, name`)
}

async function readColumns (client: ClickHouse): Promise<Column[]> {
  return await select<Column>(client, `
    SELECT table, name, type, comment FROM system.columns
    WHERE database = currentDatabase() ORDER BY table, position`)
}

/** What views and receipts read, and what only Millrace does: nobody queries their columns. */
function isInternal ({ name, comment }: Table): boolean {
  return / query \w+/.test(comment) || ['event_traces', 'schema_migrations'].includes(name)
}

function renderRow ({ name, type, comment }: Column): string {
  const plain = type.replace(/^SimpleAggregateFunction\(\w+, (.+)\)$/, '$1').replaceAll(/ = \d+/g, '')
  return `| \`${name}\` | ${plain} | ${comment} |`
}

/** The same in each copy of a row of Postgres. */
function isOfCopies ({ name }: Column): boolean {
  return name === 'version' || name === 'copied_at'
}

/** The property that a column of text holds, by its comment: `Browser ($browser)`. */
function propertyOf ({ type, comment }: Column): string | undefined {
  return /^(?:LowCardinality\()?String\)?$/.test(type) ? /\((\$?\w+)\)$/.exec(comment)?.[1] : undefined
}

/** The columns of a table, those of one property in a sentence; beside those of `events`, only what differs. */
function renderColumns (table: string, columns: readonly Column[]): string {
  const own = columns.filter((column) => column.table === table && !isOfCopies(column) && column.comment !== 'Project')
  const ofEvents = new Set(columns.filter((column) => column.table === 'events' && table !== 'events').map(renderRow))
  const differing = own.filter((column) => !ofEvents.has(renderRow(column)))
  const shared = own.length - differing.length
  const listed = shared > 10 ? differing : own
  const ofProperties = listed.filter((column) => propertyOf(column) !== undefined)
  const text = ofProperties.map((column) => `\`${column.name}\` (\`${propertyOf(column)}\`)`).join(', ')
  const rows = listed.filter((column) => propertyOf(column) === undefined).map(renderRow)
  return [
    `| column | type | meaning |\n|---|---|---|\n${rows.join('\n')}\n`,
    ...shared > 10 ? [`The other ${shared} columns are those of \`events\`.\n`] : [],
    ...text === '' ? [] : [`Text of one property each: ${text}.\n`]
  ].join('\n')
}

function render (tables: readonly Table[], columns: readonly Column[]): string {
  const sections = tables.filter((table) => !isInternal(table)).map(({ name, engine, comment }) =>
    `## ${name}\n\n${engine === 'View' ? 'View. ' : ''}${comment}.\n\n${renderColumns(name, columns)}`)
  const internal = tables.filter(isInternal).map(({ name, comment }) => `| \`${name}\` | ${comment} |`)
  return `# Data dictionary

The tables and views of ClickHouse, from their comments. A \`project_id\` that is not listed is the project (UInt32); copies also have \`version\` (UInt64, the highest is valid) and \`copied_at\` (DateTime). Sample queries: [queries](../query/queries/README.md).

Columns of \`events\` that begin with \`p_\` are the [promoted properties](../query/bi-tools.md#a-column-for-a-property) of this installation; their comments name the property.

This page is generated: \`MILLRACE_TEST_WRITE=1 npx node docs/reference/data-dictionary.test.ts\`.

${sections.join('\n')}
## Internal tables

Columns: \`DESCRIBE TABLE\`.

| table | meaning |
|---|---|
${internal.join('\n')}
`
}

t.test('every table, view and column says what it is', async (t) => {
  const { client } = await createTestClickHouse(t)
  const silentTables = await select<{ name: string }>(client, `
    SELECT name FROM system.tables WHERE database = currentDatabase() AND comment = '' ORDER BY name`)
  const silentColumns = (await readColumns(client)).filter(({ comment }) => comment === '')

  t.same(silentTables.map(({ name }) => name), [], 'tables without a comment')
  t.same(silentColumns.map(({ table, name }) => `${table}.${name}`), [], 'columns without a comment')
})

t.test('the data dictionary is what the tables say', async (t) => {
  const { client } = await createTestClickHouse(t)
  const text = render(await readTables(client), await readColumns(client))
  if (process.env.MILLRACE_TEST_WRITE === '1') await writeFile(FILE, text)

  t.equal(await readFile(FILE, 'utf8'), text)
})
