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

function render (tables: readonly Table[], columns: readonly Column[]): string {
  const sections = tables.map(({ name, engine, comment }) => {
    const rows = columns.filter(({ table }) => table === name)
      .map((column) => `| \`${column.name}\` | ${column.type.replaceAll('|', '\\|')} | ${column.comment} |`)
    const kind = engine === 'View' ? 'View. ' : ''
    return `## ${name}\n\n${kind}${comment}.\n\n| column | type | meaning |\n|---|---|---|\n${rows.join('\n')}\n`
  })
  return `# Data dictionary

Every table and view of the ClickHouse database \`millrace\`, from the comments of the tables themselves. Views, listed first, are
what to query; tables that are "partly merged" are what the views read. Sample queries: [queries](../query/queries/README.md).

Columns of \`events\` whose names begin with \`p_\` are [promoted properties](../query/promoted-properties.md): each installation has its
own, and their comments say which property they hold.

This page is generated: \`MILLRACE_TEST_WRITE=1 npx node docs/reference/data-dictionary.test.ts\`.

${sections.join('\n')}`
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
