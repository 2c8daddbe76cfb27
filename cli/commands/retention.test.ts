import t from 'tap'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { runCaptured, type Captured } from '../testing/run-captured.ts'

t.test('shows the rules, also without any, and refuses contradictory ones', async (t) => {
  const { sql, url } = await createTestPostgres(t)
  await sql`INSERT INTO projects (id, name) VALUES (1, 'Shop')`
  const run = async (line: string): Promise<Captured> =>
    await runCaptured(`retention ${line}`.split(' '), { DATABASE_URL: url })
  const unlimited = { days: null, projectId: null }

  t.same(JSON.parse((await run('show --json')).out), [{ what: 'events', ...unlimited }, { what: 'dead_letters', ...unlimited }])
  t.match((await run('set --days 400')).out, /events +all +400\n/)
  t.match((await run('set --project 1 --forever')).out, /events +all +400\nevents +1 +forever\n/)
  t.same(JSON.parse((await run('set --dead-letters --days 30 --json')).out), [
    { what: 'events', projectId: null, days: 400 },
    { what: 'events', projectId: 1, days: null },
    { what: 'dead_letters', projectId: null, days: 30 }
  ])
  t.notMatch((await run('clear --project 1')).out, /forever/)
  for (const [line, why] of [
    ['set --project 9 --days 3', /no project 9/],
    ['set --project 1', /either --days or --forever/],
    ['set --days 3 --forever', /either --days or --forever/],
    ['set --dead-letters --project 1 --days 3', /--project cannot be combined with --dead-letters/],
    ['set --days 0', /at least 1/],
    ['set --days 40000', /at most 36500/]
  ] as const) {
    const { code, err } = await run(line)
    t.not(code, 0, line)
    t.match(err, why)
  }
})
