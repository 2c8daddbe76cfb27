import t, { type Test } from 'tap'
import { createNatsOnDemand } from '../../api/events/dead-letters/nats-on-demand.ts'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { plantDeadLetters } from '../../api/testing/plant-dead-letters.ts'
import { createLogger } from '../../platform/logger.ts'
import { runCaptured, type ServedApi, startApi } from '../testing/run-captured.ts'

async function start (t: Test, letters: Parameters<typeof plantDeadLetters>[1]): Promise<ServedApi> {
  const { url } = await plantDeadLetters(t, letters)
  const api = await startApi(t, { nats: createNatsOnDemand({ url, logger: createLogger({ component: 'test', level: 'silent' }) }) })
  await api.inNewProject()
  return { ...api, run: async (line) => await api.run(...line!.split(' ')) }
}

t.test('lists, shows and counts dead letters of all projects', async (t) => {
  const { run } = await start(t, [{ project: 1, event: 'paid' }, { project: 2 }, { reason: 'too_large', error: 'of 40 MB' }])

  t.match(JSON.parse((await run('dead-letters list --json')).out), [{ id: 1, event: 'paid' }, { id: 2 }, { id: 3, project: null }])
  t.match(JSON.parse((await run('dead-letters list --project 2 --json')).out), [{ id: 2 }])
  t.match((await run('dead-letters list --reason too_large')).out, /^id +time .*\n3 .* too_large +- +- +of 40 MB\n$/)
  t.match(JSON.parse((await run('dead-letters list --limit 2 --json')).out), { length: 2 })
  t.match(JSON.parse((await run('dead-letters show 1')).out), { id: 1, content: { some: 'body' } })
  t.match(JSON.parse((await run('dead-letters stats --json')).out), [
    { reason: 'refused', project: 1, count: 1 }, { project: 2, count: 1 }, { reason: 'too_large', count: 1 }
  ])
  t.match(await run('dead-letters show 9'), { code: 1, err: /there is no dead letter 9/ })
  t.match(await run('dead-letters show 2 --project 1'), { code: 1, err: /there is no dead letter 2/ })
  t.match(await run('dead-letters list --reason a.>'), { code: 1, err: /reason/ })
})

t.test('a key of one project sees its dead letters, and no others', async (t) => {
  const { sql, user, env } = await start(t, [{ project: 1 }, { project: 2 }, {}])
  const { key } = await createPersonalKey(sql, { email: user.email, label: 'one', scopes: ['dead_letter:write'], projectIds: [1], expiresAt: null })
  const run = async (...args: string[]) => await runCaptured(['dead-letters', ...args], { ...env, MILLRACE_KEY: key })

  t.match(JSON.parse((await run('list', '--project', '1', '--json')).out), [{ id: 1 }])
  for (const line of [['list'], ['stats'], ['show', '3'], ['replay'], ['replay', '3'], ['purge', '3', '--yes']]) {
    t.match(await run(...line), { code: 1, err: /about the whole installation/ }, line.join(' '))
  }
})

t.test('replays what matches, after a dry run', async (t) => {
  const { run } = await start(t, [{ project: 1 }, { project: 2 }, { project: 2 }])

  t.match(JSON.parse((await run('dead-letters replay --project 2 --dry-run --json')).out), { matched: 2, replayed: 0 })
  t.match(JSON.parse((await run('dead-letters replay --project 2 --limit 1 --json')).out), { matched: 1, replayed: 1 })
  t.match(JSON.parse((await run('dead-letters replay 1 --json')).out), { matched: 1, replayed: 1 })
  t.match(await run('dead-letters replay 1'), { code: 1, err: /no dead letter 1/ })
  t.match(await run('dead-letters replay 3 --stage writer'), { code: 2, err: /give either an id or/ })

  t.match(JSON.parse((await run('dead-letters list --json')).out), [{ id: 3 }])
})

t.test('replays more than one request takes', async (t) => {
  const { run } = await start(t, Array.from({ length: 600 }, (_, index) => ({ project: index < 599 ? 1 : 2 })))

  t.match(JSON.parse((await run('dead-letters replay --project 1 --json')).out), { matched: 599, replayed: 599 })
  t.match(JSON.parse((await run('dead-letters list --json')).out), { length: 1 })
})

t.test('removes nothing without --yes', async (t) => {
  const { run } = await start(t, [{ project: 1 }, { project: 2 }])

  t.match(await run('dead-letters purge'), { code: 0, err: /add --yes/, out: /matched +2\npurged +0/ })
  t.match(await run('dead-letters purge 2'), { code: 0, err: /add --yes/, out: /matched +1\npurged +0/ })
  t.match(JSON.parse((await run('dead-letters purge --project 1 --yes --json')).out), { matched: 1, purged: 1 })

  t.match(JSON.parse((await run('dead-letters list --json')).out), [{ project: 2 }])
  t.match(await run('dead-letters purge 2 --yes'), { code: 0, out: /purged +1/ })
})

t.test('refuses filters that mean something else', async (t) => {
  for (const line of ['dead-letters list --stage kitchen', 'dead-letters list --from soon', 'dead-letters show x']) {
    t.match(await runCaptured(line.split(' '), {}), { code: 2 }, line)
  }
  const { run } = await startApi(t)
  t.match(await run('dead-letters', 'list'), { code: 3, err: /in NATS, which is unavailable/ })
})
