import t from 'tap'
import { createTestPostgres } from '../../test/support/test-stores.ts'

t.test('puts statements into statements, with rows, columns and values of every kind', async (t) => {
  const { sql } = await createTestPostgres(t)
  await sql`CREATE TABLE things (id bigint, "odd ""name" text, tags text[], about jsonb, made timestamptz, day date, raw bytea)`
  const made = new Date('2026-11-22T10:00:00.123Z')
  const day = new Date('2026-11-22T00:00:00Z')
  const row = { id: 2 ** 40, 'odd "name': "it's", tags: ['a"b', 'c,d', '\\'], about: sql.json(['x', { y: null }]), made, day, raw: Buffer.from([0, 255]) }

  const inserted = await sql`INSERT INTO things ${sql([row, { ...row, id: 7 }])}`
  const updated = await sql`UPDATE things SET ${sql({ tags: [], about: null })} WHERE id = ${7}`
  const where = (id: number) => sql`WHERE id = ${id} AND ${sql`${true}::boolean`}`

  t.match([inserted.count, updated.count, updated.command], [2, 1, 'UPDATE'])
  t.strictSame([...await sql`SELECT * FROM things ${where(2 ** 40)}`], [{ ...row, about: ['x', { y: null }] }])
  t.strictSame([...await sql`SELECT tags, about FROM things ${where(7)}`], [{ tags: [], about: null }])
  await t.rejects(async () => await sql`SELECT ${undefined}`, TypeError)
})

t.test('takes a savepoint back and keeps what was before it; a failed statement fails its transaction', async (t) => {
  const { sql } = await createTestPostgres(t)
  await sql`CREATE TABLE notes (note text UNIQUE)`

  await sql.begin(async (transaction) => {
    await transaction`INSERT INTO notes VALUES ('kept')`
    await t.rejects(transaction.savepoint(async (inner) => {
      await inner`INSERT INTO notes VALUES ('taken back')`
      await inner`INSERT INTO notes VALUES ('kept')`
    }), { code: '23505', constraint: 'notes_note_key' })
    await transaction.savepoint(async (inner) => await inner`INSERT INTO notes VALUES ('also kept')`)
  })
  const swallowed = sql.begin(async (transaction) => {
    await transaction`INSERT INTO notes VALUES ('lost')`
    await transaction`INSERT INTO notes VALUES ('kept')`.catch(() => {})
  })

  await t.rejects(swallowed, { message: /was rolled back/ })
  t.same(await sql`SELECT note FROM notes ORDER BY 1`, [{ note: 'also kept' }, { note: 'kept' }])
})

t.test('works on after a table that its statements know has another column', async (t) => {
  const { sql } = await createTestPostgres(t)
  await sql`CREATE TABLE notes (note text)`
  const read = async (): Promise<unknown[]> => [...await sql`SELECT * FROM notes`]
  await read()

  await sql`ALTER TABLE notes ADD COLUMN more text`
  await sql`INSERT INTO notes VALUES ('a', 'b')`

  t.strictSame(await read(), [{ note: 'a', more: 'b' }])
})
