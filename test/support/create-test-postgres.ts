import { randomBytes } from 'node:crypto'
import { connectPostgres, type Sql } from '../../platform/postgres/connect-postgres.ts'
import { askForService } from './ask-for-service.ts'
import { TEMPLATE_DATABASE } from './template-database.ts'
import { type TestContext } from './test-context.ts'

export interface TestPostgres {
  /** What `DATABASE_URL` is set to in order to use it. */
  url: string
  sql: Sql
}

/** Creates a migrated database for one test, on the Postgres of the run; it is dropped with the test. */
export async function createTestPostgres (t: TestContext): Promise<TestPostgres> {
  const adminUrl = await askForService('postgres')
  const database = `test_${randomBytes(6).toString('hex')}`
  // A file copy costs two thirds of the other strategy, which writes every page to the log.
  await runAsAdmin(adminUrl, `CREATE DATABASE ${database} TEMPLATE ${TEMPLATE_DATABASE} STRATEGY FILE_COPY`)
  const url = new URL(adminUrl)
  url.pathname = `/${database}`
  const sql = connectPostgres({ url: url.href, max: 4 })
  t.teardown(async () => {
    await sql.end({ timeout: 1 })
    // FORCE: processes that the test started may still be connected.
    await runAsAdmin(adminUrl, `DROP DATABASE IF EXISTS ${database} WITH (FORCE)`)
  })
  return { url: url.href, sql }
}

async function runAsAdmin (url: string, statement: string): Promise<void> {
  const admin = connectPostgres({ url, max: 1 })
  try {
    await admin.unsafe(statement)
  } finally {
    await admin.end({ timeout: 1 })
  }
}
