import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { startApi } from '../testing/run-captured.ts'

const { run } = await startApi(t)
const RULES = '/api/projects/1/rules/'
const RULE = { name: 'no tests', condition: { type: 'event', value: 'test' }, actions: [{ type: 'drop' }] }

t.test('sends a body of the command line or of a file, and writes the answer', async (t) => {
  const file = path.join(t.testdir(), 'rule.json')
  await writeFile(file, `\uFEFF${JSON.stringify(RULE)}`)
  const { id } = JSON.parse((await run('request', 'post', RULES, '--data', `@${file}`)).out) as { id: number }

  t.match(JSON.parse((await run('request', 'PATCH', `${RULES}${id}/`, '--data', '{"active_version":1}')).out), { active_version: 1, name: 'no tests' })
  t.match(JSON.parse((await run('request', 'GET', `${RULES}?limit=1`)).out), { count: 1, results: [{ id }] })
  t.same(await run('request', 'DELETE', `${RULES}${id}/`), { code: 0, out: '', err: '' })
})

t.test('says what is wrong, and where', async (t) => {
  t.match(await run('request', 'POST', RULES, '--data', JSON.stringify({ ...RULE, actions: [{ type: 'burn' }] })), { code: 1, out: '', err: /actions/ })
  t.match(await run('request', 'POST', RULES, '--data', '{'), { code: 1, err: /cannot read JSON from \{/ })
  t.match(await run('request', 'POST', RULES, '--data', '@/none'), { code: 1, err: /cannot read JSON from @\/none/ })
  t.match(await run('request', 'GET', '/api/projects/9/quota/'), { code: 1, out: '' })
  t.match(await run('request', 'PUT', RULES), { code: 2, err: /GET, POST, PATCH, DELETE/ })
})
