import t from 'tap'
import { plantDeadLetters } from '../../api/testing/plant-dead-letters.ts'
import { runCaptured, type Captured } from '../testing/run-captured.ts'

async function run (url: string, line: string): Promise<Captured> {
  return await runCaptured(line.split(' '), { NATS_URL: url })
}

t.test('lists, shows and counts dead letters of all projects', async (t) => {
  const { url } = await plantDeadLetters(t, [{ project: 1, event: 'paid' }, { project: 2 }, { reason: 'too_large', error: 'of 40 MB' }])

  t.match(JSON.parse((await run(url, 'dead-letters list --json')).out), [{ id: 1, event: 'paid' }, { id: 2 }, { id: 3, project: null }])
  t.match(JSON.parse((await run(url, 'dead-letters list --project 2 --json')).out), [{ id: 2 }])
  t.match((await run(url, 'dead-letters list --reason too_large')).out, /^id +time .*\n3 .* too_large +- +- +of 40 MB\n$/)
  t.match(JSON.parse((await run(url, 'dead-letters show 1')).out), { id: 1, content: { some: 'body' } })
  t.match(JSON.parse((await run(url, 'dead-letters stats --json')).out), [
    { reason: 'refused', project: 1, count: 1 }, { project: 2, count: 1 }, { reason: 'too_large', count: 1 }
  ])
  t.match(await run(url, 'dead-letters show 9'), { code: 1, err: /there is no dead letter 9/ })
})

t.test('replays what matches, after a dry run', async (t) => {
  const { url } = await plantDeadLetters(t, [{ project: 1 }, { project: 2 }, { project: 2 }])

  t.match(JSON.parse((await run(url, 'dead-letters replay --project 2 --dry-run --json')).out), { matched: 2, replayed: 0 })
  t.match(JSON.parse((await run(url, 'dead-letters replay --project 2 --limit 1 --json')).out), { matched: 1, replayed: 1 })
  t.match(JSON.parse((await run(url, 'dead-letters replay 1 --json')).out), { matched: 1, replayed: 1 })
  t.match(await run(url, 'dead-letters replay 1'), { code: 1, err: /no dead letter 1/ })

  t.match(JSON.parse((await run(url, 'dead-letters list --json')).out), [{ id: 3 }])
})

t.test('removes nothing without --yes', async (t) => {
  const { url } = await plantDeadLetters(t, [{ project: 1 }, { project: 2 }])

  t.match(await run(url, 'dead-letters purge'), { code: 0, err: /add --yes/, out: /matched +2\npurged +0/ })
  t.match(JSON.parse((await run(url, 'dead-letters purge --project 1 --yes --json')).out), { matched: 1, purged: 1 })

  t.match(JSON.parse((await run(url, 'dead-letters list --json')).out), [{ project: 2 }])
})

t.test('refuses filters that mean something else', async (t) => {
  for (const line of ['dead-letters list --stage kitchen', 'dead-letters list --reason a.>', 'dead-letters list --from soon', 'dead-letters show x']) {
    t.match(await run('nats://127.0.0.1:9', line), { code: 2 }, line)
  }
  t.match(await run('nats://127.0.0.1:9', 'dead-letters list'), { code: 3, err: /does not answer/ })
})
