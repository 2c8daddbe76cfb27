import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { copyEvents, dropCopy, readBooksOfCopy, verifyBooks } from './books.ts'

t.test('the books are those of one moment, and name what a restore lost, added or changed', async (t) => {
  const { client } = await createTestClickHouse(t)
  const insert = async (...names: string[]): Promise<void> => {
    await client.insert({
      table: 'events',
      format: 'JSONEachRow',
      values: names.map((event, index) => ({
        project_id: 1, uuid: `018f0000-0000-7000-8000-00000000000${index}`, event, received_at: '2026-11-20 12:00:00'
      }))
    })
  }
  await insert('seen', 'paid')
  await copyEvents(client)
  t.teardown(async () => { await dropCopy(client) })
  await client.command({ query: "ALTER TABLE events DELETE WHERE event = 'paid' SETTINGS mutations_sync = 1" })

  const books = await readBooksOfCopy(client)

  t.match(books, [{ project: 1, day: '2026-11-20', events: 2, checksum: /^\d+$/ }])
  await t.rejects(verifyBooks(client, books), {
    code: 'MILLRACE_RESTORE_FAILED', message: 'project 1 has 1 events received on 2026-11-20, and 2 in the books of the backup'
  })
  await insert('left')
  await t.rejects(verifyBooks(client, books), { message: /2 events received on 2026-11-20, .* but not the same ones/ })
  await client.command({ query: "ALTER TABLE events DELETE WHERE event = 'left' SETTINGS mutations_sync = 1" })
  await client.command({ query: "INSERT INTO events SELECT * FROM millrace_backup.events WHERE event = 'paid'" })
  await t.resolves(verifyBooks(client, books), 'in other parts, the same events')
  await t.rejects(verifyBooks(client, []), { message: /and none in the books/ })
  await dropCopy(client)
  t.equal((await (await client.query({ query: 'SELECT 1 FROM events', format: 'JSONEachRow' })).json()).length, 2)
})
