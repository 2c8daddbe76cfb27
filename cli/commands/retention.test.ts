import t from 'tap'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { type Captured, runCaptured, startApi } from '../testing/run-captured.ts'

t.test('shows the rules, also without any, and refuses contradictory ones', async (t) => {
  const api = await startApi(t)
  const run = async (line: string, env = api.env): Promise<Captured> => await runCaptured(['retention', ...line.split(' ')], env)
  const unlimited = { days: null, project_id: null }

  t.same(JSON.parse((await run('show --json')).out), [{ what: 'events', ...unlimited }, { what: 'dead_letters', ...unlimited }])
  t.match((await run('set --days 400')).out, /events +all +400\n/)
  t.match((await run('set --project 1 --forever')).out, /events +all +400\nevents +1 +forever\n/)
  t.same(JSON.parse((await run('set --dead-letters --days 30 --json')).out), [
    { what: 'events', project_id: null, days: 400 },
    { what: 'events', project_id: 1, days: null },
    { what: 'dead_letters', project_id: null, days: 30 }
  ])
  t.notMatch((await run('clear --project 1')).out, /forever/)
  for (const [line, why] of [
    ['set --project 9 --days 3', /no project 9/],
    ['set --project 1', /either --days or --forever/],
    ['set --days 3 --forever', /either --days or --forever/],
    ['set --dead-letters --project 1 --days 3', /--project cannot be combined with --dead-letters/],
    ['set --days 0', /at least 1/],
    ['set --days 40000', /36500/]
  ] as const) {
    const { code, err } = await run(line)
    t.not(code, 0, line)
    t.match(err, why)
  }

  const { key } = await createPersonalKey(api.sql, { email: api.user.email, label: '', scopes: ['project:write'], projectIds: null, expiresAt: null })
  const env = { ...api.env, MILLRACE_KEY: key }
  t.match(await run('show', env), { code: 0 })
  for (const line of ['set --days 1', 'clear']) t.match(await run(line, env), { code: 1, err: /scope '\*'/ }, line)
})
