import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { runCaptured } from '../testing/run-captured.ts'

t.test('shows the last events of a project, then each new one once, and ends when it is told', async (t) => {
  const { client, url } = await createTestClickHouse(t)
  const insert = async (...events: { event: string, at: string, project?: number }[]): Promise<void> => {
    const values = events.map(({ event, at, project = 1 }) => ({
      project_id: project, uuid: randomUUID(), event, distinct_id: 'jo\u001b[31m', timestamp: '2026-01-02 03:04:05.678',
      inserted_at: at, properties: '{"account":12345678901234567890}'
    }))
    await client.insert({ table: 'events', format: 'JSONEachRow', values })
  }
  const ago = (seconds: number): string => new Date(Date.now() - seconds * 1000).toISOString().slice(0, -1).replace('T', ' ')
  const run = async (...args: string[]): Promise<string[]> => {
    const { out, err } = await runCaptured(['events', 'tail', ...args], { CLICKHOUSE_URL: url })
    t.equal(err, '')
    return out.trimEnd().split('\n')
  }
  await insert({ event: 'first', at: ago(60) }, { event: 'second', at: ago(50) }, { event: 'theirs', at: ago(40), project: 2 })

  t.match(await run('--lines', '1', '--limit', '1'), [/^2026-01-02 03:04:05\.678 {2}\S{36} {2}second {2}jo\?\[31m$/])
  t.match(await run('--limit', '2', '--json'), [/"event":"first".*"properties":\{"account":12345678901234567890\}\}$/, /"event":"second"/])
  t.match(await run('--event', 'first', '--limit', '1'), [/first/])
  const watch = { isOver: false }
  const watched = run('--lines', '2', '--limit', '4').finally(() => { watch.isOver = true })
  while (!watch.isOver) {
    await insert({ event: 'new', at: ago(0) }, { event: 'theirs', at: ago(0), project: 2 })
    await delay(200)
  }

  const shown = (await watched).map((line) => line.split('  '))
  t.equal(new Set(shown.map(([, uuid]) => uuid)).size, 4)
  t.ok(shown.some(([,, event]) => event === 'new'))
  t.notOk(shown.some(([,, event]) => event === 'theirs'))
  t.match(await runCaptured(['events', 'tail', '--limit', 'many'], { CLICKHOUSE_URL: url }), { code: 2 })
})
