import { randomUUID } from 'node:crypto'
import t from 'tap'
import { plantDeadLetters } from '../../api/testing/plant-dead-letters.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { runCaptured, type Captured } from '../testing/run-captured.ts'

t.test('says what became of an event of a project', async (t) => {
  const [stored, refused, unknown] = [randomUUID(), randomUUID(), randomUUID()]
  const clickhouse = await createTestClickHouse(t)
  const { url } = await plantDeadLetters(t, [{ project: 2, uuid: refused }])
  const time = '2026-01-02 03:04:05.678'
  await clickhouse.client.insert({
    table: 'events', format: 'JSONEachRow', values: [{ project_id: 2, uuid: stored, event: 'paid', distinct_id: 'jo', timestamp: time, received_at: time }]
  })
  const run = async (line: string): Promise<Captured> =>
    await runCaptured(['event', ...line.split(' ')], { NATS_URL: url, CLICKHOUSE_URL: clickhouse.url })

  t.match((await run(`${stored} --project 2`)).out, /fate +stored\nevent +paid\ndistinctId +jo\n/)
  t.match(JSON.parse((await run(`${refused.toUpperCase()} --project 2 --json`)).out), { fate: 'dead_letter', id: 1, reason: 'refused' })
  t.match(JSON.parse((await run(`${unknown} --project 2 --json`)).out), { fate: 'not_found', messagesWaiting: 0 })
  t.match(JSON.parse((await run(`${stored} --json`)).out), { fate: 'not_found', project: 1 })
  t.match(await run('none'), { code: 2, err: /Give a uuid/ })
})
