import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { createNatsOnDemand } from '../../api/events/dead-letters/nats-on-demand.ts'
import { plantDeadLetters } from '../../api/testing/plant-dead-letters.ts'
import { PROJECT_KEY, startTestIngest } from '../../ingest/testing/start-test-ingest.ts'
import { makeEvent, publishEvents } from '../../pipeline/testing/publish-events.ts'
import { createLogger } from '../../platform/logger.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { type Captured, runCaptured, startApi } from '../testing/run-captured.ts'

t.test('shows events of a project as they arrive, and ends when it is told', async (t) => {
  const ingest = await startTestIngest(t)
  const logger = createLogger({ component: 'test', level: 'silent' })
  const { run } = await startApi(t, { nats: createNatsOnDemand({ url: ingest.nats.url, logger }) })
  const tail = async (...args: string[]): Promise<string> => {
    const watch = { isOver: false }
    const watched = run('events', 'tail', ...args).finally(() => { watch.isOver = true })
    // The feed begins some time after the command.
    while (!watch.isOver) {
      await ingest.post('/batch/', {
        api_key: PROJECT_KEY,
        batch: [
          { event: 'first', distinct_id: 'jo\u001b[31m', uuid: randomUUID(), properties: { account: 'x' } },
          { event: 'second', distinct_id: 'jo' }, { event: 'nobody' }
        ]
      })
      await delay(100)
    }
    const { code, out, err }: Captured = await watched
    t.match({ code, err }, { code: 0, err: '' })
    return out
  }

  t.match(await tail('--event', 'first', '--limit', '2'), /^(20\S+Z {2}\S{36} {2}first {2}jo\?\[31m\n){2}$/)
  t.match(JSON.parse(await tail('--event', 'first', '--limit', '1', '--json')), { event: 'first', drop: null, sent: /"account":"x"/ })
  t.match(await tail('--distinct-id', 'jo', '--limit', '1'), /second {2}jo\n$/)
  t.match(await tail('--event', 'nobody', '--limit', '1'), /nobody .*dropped: missing_distinct_id\n$/)
  t.match(await run('events', 'tail', '--project', '999'), { code: 1, err: /there is no project 999/ })
  t.match(await runCaptured(['events', 'tail', '--limit', 'many'], {}), { code: 2 })
})

t.test('says that nothing can be seen while NATS does not answer', async (t) => {
  const { run } = await startApi(t)

  t.match(await run('events', 'tail'), { code: 3, err: /NATS, which is unavailable/ })
})

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
