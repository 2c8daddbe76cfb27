import { randomUUID } from 'node:crypto'
import t from 'tap'
import { plantDeadLetters } from '../../api/testing/plant-dead-letters.ts'
import { makeEvent, publishEvents } from '../../pipeline/testing/publish-events.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { type Captured, startApi } from '../testing/run-captured.ts'

t.test('says what became of an event of a project, and of the events of a distinct id', async (t) => {
  const [stored, refused, unknown, waiting] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()]
  const clickhouse = await createTestClickHouse(t)
  const { connection } = await plantDeadLetters(t, [{ project: 2, uuid: refused }])
  const time = '2026-01-02 03:04:05.678'
  await clickhouse.client.insert({
    table: 'events',
    format: 'JSONEachRow',
    values: [{ project_id: 2, uuid: stored, event: 'paid', distinct_id: 'jo', timestamp: time, received_at: time, insert_token: 's:live.0:7-9@one' }]
  })
  await publishEvents(connection, [makeEvent({ project_id: 2, uuid: waiting, distinct_id: 'jo' })])
  const nats = { get: async () => connection, close: async () => {} }
  const api = await startApi(t, { clickhouse: clickhouse.client, nats })
  t.equal((await api.inNewProject()).projectId, 2)
  const run = async (...args: string[]): Promise<Captured> => await api.run('event', ...args)
  const runJson = async (...args: string[]): Promise<Record<string, unknown>> => JSON.parse((await run(...args, '--json')).out)

  const { out } = await run(stored, '--project', '2')
  t.match(out, /fate +stored\nevent +paid\ndistinct_id +jo\n/)
  t.match(out, /received_by +one\npartition +live.0\nfirst_sequence +7\nlast_sequence +9\n/)
  t.match(await runJson(refused.toUpperCase(), '--project', '2'), { fate: 'dead_letter', dead_letter: { id: 1, reason: 'refused' } })
  t.match(await runJson(waiting, '--project', '2'), { fate: 'waiting', waiting: { partition: 'live.0', messages_ahead: 0 } })
  t.match(await runJson(unknown, '--project', '2'), { fate: 'unknown', may_be_in: [], searched: { messages: 1, of: 1 } })
  t.match((await run(unknown)).out, /fate +unknown\nmay_be_in +-\nsearched +1 of 1 messages\n/)
  t.match(await runJson(stored), { fate: 'unknown', project: 1 })
  t.match(await run(stored, '--project', '99'), { code: 1, out: '', err: /there is no project 99/ })
  t.match(await run('--distinct-id', 'jo', '--project', '99'), { code: 1, out: '', err: /there is no project 99/ })

  t.match((await run('--distinct-id', 'jo', '--project', '2')).out,
    new RegExp(`^RECEIVED +FATE +UUID +EVENT\n\\S+ +waiting +${waiting} +order paid\n\\S+ +stored +${stored} +paid\n$`))
  t.match(await runJson('--distinct-id', 'jo', '--project', '2', '--limit', '1'), [{ uuid: waiting }])
  t.match(await run('none'), { code: 1, err: /uuid must be a UUID/ })
  t.match(await run(), { code: 2, err: /give the uuid of an event, or --distinct-id/ })
})
