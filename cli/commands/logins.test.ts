import t from 'tap'
import { connectPostgres } from '../../platform/postgres/connect-postgres.ts'
import { createTestClickHouse, createTestPostgres } from '../../test/support/test-stores.ts'
import { runCaptured } from '../testing/run-captured.ts'
import { createPostgresLogins, LOGIN_VARIABLES, readPasswords, renderClickHouseLogins } from './logins.ts'

const AWKWARD = "a'quote\\and:more"
const passwords = Object.fromEntries(LOGIN_VARIABLES.map((name) => [name, `${name}-${AWKWARD}`]))

t.test('without every password no login is changed, and the message names the missing ones', async (t) => {
  const { POSTGRES_API_PASSWORD: _, ...others } = passwords
  t.throws(() => readPasswords(others), { code: 'MILLRACE_PASSWORDS_MISSING', message: /set POSTGRES_API_PASSWORD$/ })
  t.same(readPasswords(passwords), passwords)

  const { code, err } = await runCaptured(['logins', 'create'], {})
  t.equal(code, 1)
  t.match(err, 'CLICKHOUSE_ANALYST_PASSWORD')
})

t.test('each tier logs in to Postgres with the rights of its role, and a second run gives it a new password', async (t) => {
  const { url, sql } = await createTestPostgres(t)
  const login = (password: string): string => {
    const address = new URL(url)
    address.username = 'ingest'
    address.password = encodeURIComponent(password)
    return address.href
  }
  const asIngest = async (password: string, query: string): Promise<unknown> => {
    const connection = connectPostgres({ url: login(password), max: 1 })
    try {
      return await connection.unsafe(query)
    } finally {
      await connection.end({ timeout: 1 })
    }
  }
  // Logins are of the whole server, so this is the only test that makes one of this name.
  t.teardown(async () => { for (const name of ['ingest', 'pipeline', 'api']) await sql.unsafe(`DROP OWNED BY ${name}; DROP USER ${name}`) })

  await createPostgresLogins(sql, passwords)
  t.ok(await asIngest(passwords.POSTGRES_INGEST_PASSWORD!, 'SELECT api_key FROM project_api_keys'))
  await t.rejects(asIngest(passwords.POSTGRES_INGEST_PASSWORD!, 'SELECT * FROM persons'), { code: '42501' })

  await createPostgresLogins(sql, { ...passwords, POSTGRES_INGEST_PASSWORD: 'another' })
  t.ok(await asIngest('another', 'SELECT api_key FROM project_api_keys'))
  await t.rejects(asIngest(passwords.POSTGRES_INGEST_PASSWORD!, 'SELECT 1'), { code: '28P01' })
})

t.test('the statements for ClickHouse have the passwords quoted, and the engine parses each', async (t) => {
  const { client } = await createTestClickHouse(t)
  const statements = await renderClickHouseLogins(passwords)

  t.notMatch(statements.join('\n'), /<\w+ password>/)
  for (const user of ['millrace_owner', 'millrace_pipeline', 'millrace_api', 'analyst']) {
    const [create, alter] = [`CREATE USER IF NOT EXISTS ${user} `, `ALTER USER ${user} `].map((start) =>
      statements.findIndex((statement) => statement.startsWith(start)))
    t.ok(create! >= 0 && alter! === create! + 1, `${user} is made, or gets a new password`)
  }
  for (const statement of statements) {
    const formatted = await client.query({
      query: 'SELECT formatQuery({statement:String}) AS text', query_params: { statement }, format: 'JSONEachRow'
    })
    t.match(await formatted.json(), [{ text: /^(CREATE|GRANT|ALTER)/ }])
  }
})
