import t from 'tap'
import { createTestClickHouse, createTestPostgres } from '../../test/support/test-stores.ts'
import { prepareDatabases } from './prepare-databases.ts'

async function prepare (databaseUrl: string, clickhouseUrl: string): Promise<unknown> {
  return await prepareDatabases({
    databaseUrl, clickhouseUrl, cluster: '', createDatabase: false, projectApiKey: 'phc_a', personalApiKey: 'phx_a'
  }, { env: process.env, signal: new AbortController().signal })
}

t.test('a start on databases of a newer version ends with one sentence, before any tier', async (t) => {
  const [{ sql, url }, clickhouse] = await Promise.all([createTestPostgres(t), createTestClickHouse(t)])
  await sql`INSERT INTO schema_versions VALUES ('9.1.0', '9.1.0', '{}')`

  await t.rejects(prepare(url, clickhouse.url), {
    code: 'MILLRACE_DATABASE_NEWER', message: /^the database was migrated by Millrace 9\.1\.0, .*before the upgrade$/
  })
})

t.test('a server of one\'s own that refuses or does not answer is named by its setting, without a stack', async (t) => {
  const [postgres, clickhouse] = await Promise.all([createTestPostgres(t), createTestClickHouse(t)])
  const missing = new URL(postgres.url)
  missing.pathname = '/no_such_database'
  const stranger = new URL(clickhouse.url)
  stranger.password = 'wrong'

  const code = 'MILLRACE_DATABASE_REFUSED'
  await t.rejects(prepare(missing.href, clickhouse.url), { code, message: /does not exist .*correct DATABASE_URL/ })
  await t.rejects(prepare('postgres://a@127.0.0.1:1/a', clickhouse.url), { code, message: /does not answer .*correct DATABASE_URL/ })
  await t.rejects(prepare(postgres.url, stranger.href), { code, message: /correct CLICKHOUSE_URL/ })
})
