import t from 'tap'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { connectPostgres, type TransactionSql } from './connect-postgres.ts'
import { classifyPostgresError, POSTGRES_ERRORS } from './postgres-errors.ts'

async function fail (asked: PromiseLike<unknown>): Promise<unknown> {
  return await asked.then(() => undefined, (error: unknown) => error)
}

async function sleepTooLong (transaction: TransactionSql): Promise<void> {
  await transaction`SET LOCAL statement_timeout = 50`
  await transaction`SELECT pg_sleep(5)`
}

t.test('names every code as Postgres does', async (t) => {
  const { sql } = await createTestPostgres(t)

  for (const [code, { name }] of Object.entries(POSTGRES_ERRORS)) {
    const error = await fail(sql.unsafe(`DO 'BEGIN RAISE ${name}; END'`))
    t.match(error, { code: code.padEnd(5, '0') }, name)
  }
})

t.test('tells what an error means, by its code and by the class of it', async (t) => {
  const { sql, url } = await createTestPostgres(t)
  await sql`CREATE TABLE things (id int CONSTRAINT things_pkey PRIMARY KEY)`
  await sql`INSERT INTO things VALUES (1)`
  const elsewhere = connectPostgres({ url: url.replace(/[^/]+$/, 'nothing_here') })
  const nobody = connectPostgres({ url: 'postgres://millrace@127.0.0.1:1/millrace' })
  t.teardown(async () => { await Promise.all([elsewhere.end(), nobody.end()]) })

  const twice = await fail(sql`INSERT INTO things VALUES (1)`)
  t.match(classifyPostgresError(twice), { code: '23505', name: 'unique_violation', action: 'refuse' })
  // One after the other: an error that comes before anyone waits for it would fail the test.
  for (const [ask, expected] of [
    [() => sql`SELECT * FROM nothing`, { code: '42P01', action: 'repair', why: /migrated/ }],
    [() => sql`SELECT ${'x'}::int`, { code: '22P02', name: 'data_exception', action: 'refuse' }],
    [() => sql.begin(async (each) => await sleepTooLong(each)), { code: '57014', action: 'retry' }],
    [() => sql`SELECT pg_terminate_backend(pg_backend_pid())`, { name: 'no_answer', action: 'retry', isDown: true }],
    [() => elsewhere`SELECT 1`, { code: '3D000', action: 'repair' }],
    [() => nobody`SELECT 1`, { code: 'ECONNREFUSED', action: 'retry', isDown: true }]
  ] as const) {
    t.match(classifyPostgresError(await fail(ask())), expected)
  }
})

t.test('does not know what has no code of Postgres, of a socket or of the driver', async (t) => {
  const file = Object.assign(new Error('no such file'), { code: 'ENOENT', syscall: 'open' })
  const socket = Object.assign(new Error('no such socket'), { code: 'ENOENT', syscall: 'connect' })
  for (const error of [new TypeError('a bug'), file, { code: 42 }, 'text', null, undefined]) {
    t.match(classifyPostgresError(error), { action: 'unknown' })
  }
  t.match(classifyPostgresError(Object.assign(new Error('new'), { code: 'ZZ123' })), { code: 'ZZ123', action: 'unknown' })
  t.match(classifyPostgresError(socket), { action: 'retry' })
})
