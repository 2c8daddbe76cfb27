import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { createNatsOnDemand } from '../../api/events/dead-letters/nats-on-demand.ts'
import { PROJECT_KEY, startTestIngest } from '../../ingest/testing/start-test-ingest.ts'
import { createLogger } from '../../platform/logger.ts'
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
