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

/** What a view reads, and what only Millrace does: nobody queries their columns. */
function isInternal ({ name, comment }: Table): boolean {
  return / query \w+/.test(comment) || name === 'schema_migrations'
}

function renderRow ({ name, type, comment }: Column): string {
  return `| \`${name}\` | ${type.replaceAll('|', '\\|')} | ${comment} |`
}

/** The rows of a table; of one that begins with all columns of `events`, only those that differ. */
function renderColumns (table: string, columns: readonly Column[]): string {
  const own = columns.filter((column) => column.table === table).map(renderRow)
  const ofEvents = new Set(columns.filter((column) => column.table === 'events').map(renderRow))
  const shared = table === 'events' ? [] : own.filter((row) => ofEvents.has(row))
  const rows = shared.length > 10 ? own.filter((row) => !ofEvents.has(row)) : own
  const note = rows === own ? '' : `The other ${shared.length} columns are those of \`events\`.\n\n`
  return `${note}| column | type | meaning |\n|---|---|---|\n${rows.join('\n')}\n`
}

function render (tables: readonly Table[], columns: readonly Column[]): string {
  const sections = tables.filter((table) => !isInternal(table)).map(({ name, engine, comment }) =>
    `## ${name}\n\n${engine === 'View' ? 'View. ' : ''}${comment}.\n\n${renderColumns(name, columns)}`)
  const internal = tables.filter(isInternal).map(({ name, comment }) => `| \`${name}\` | ${comment} |`)
  return `# Data dictionary

The tables and views of the ClickHouse database \`millrace\`, from their comments. Sample queries: [queries](../query/queries/README.md).

Columns of \`events\` that begin with \`p_\` are the [promoted properties](../query/bi-tools.md#a-column-for-a-property) of this installation; their comments name the property.

This page is generated: \`MILLRACE_TEST_WRITE=1 npx node docs/reference/data-dictionary.test.ts\`.

${sections.join('\n')}
## Tables behind the views

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
