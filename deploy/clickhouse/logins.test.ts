import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { ANALYST_PROFILE } from 'chdb-server'

const FOLDER = import.meta.dirname

/** The statements of a file, without their comments. */
async function readStatements (file: string): Promise<string[]> {
  const text = await readFile(path.join(FOLDER, file), 'utf8')
  return text.replaceAll(/^--.*$/gm, '').split(';').map((statement) => statement.trim()).filter((statement) => statement !== '')
}

t.test('the engine parses every statement', async (t) => {
  const { client } = await createTestClickHouse(t)
  const files = (await readdir(FOLDER)).filter((file) => file.endsWith('.sql'))
  t.ok(files.includes('analyst.sql'))

  for (const file of files) {
    for (const statement of await readStatements(file)) {
      const answer = await client.query({ query: `EXPLAIN AST ${statement}`, format: 'TabSeparated' })
      t.not(await answer.text(), '', `${file}: ${statement.slice(0, 60)}`)
      const formatted = await client.query({ query: 'SELECT formatQuery({statement:String})', query_params: { statement }, format: 'TabSeparated' })
      t.match(await formatted.text(), /^(CREATE|GRANT|ALTER)/)
    }
  }
})

t.test('the settings of an analyst exist, and none can be set to no limit', async (t) => {
  const { client } = await createTestClickHouse(t)
  const profile = (await readStatements('analyst.sql')).find((statement) => statement.startsWith('CREATE SETTINGS PROFILE'))!
  const settings = [...profile.matchAll(/^ +(\w+) = (\S+?)( .*?)?,?$/gm)].map(([, name, value, bounds = '']) => ({ name: name!, value: value!, bounds }))
  t.ok(settings.length > 10)

  const known = await client.query({
    query: 'SELECT name FROM system.settings WHERE name IN {names: Array(String)}',
    query_params: { names: settings.map(({ name }) => name) },
    format: 'JSONEachRow'
  })
  t.equal((await known.json()).length, settings.length)
  for (const { name, bounds } of settings.filter(({ name }) => /^max_(memory|bytes|execution|concurrent)/.test(name))) {
    t.match(bounds, /MIN 1 MAX \d+$/, name)
  }
  for (const { name, bounds } of settings.filter(({ name }) => name.startsWith('max_result'))) {
    t.match(bounds, /^ MAX \d+$/, `${name} lets 0 pass, which a shard sends to the others with a subquery`)
  }
  for (const name of ['final', 'max_execution_time', 'max_result_rows', 'max_result_bytes', 'max_query_size', 'max_ast_elements']) {
    t.equal(settings.find((setting) => setting.name === name)?.value, ANALYST_PROFILE[name], `${name} as on the embedded ClickHouse server`)
  }
})
