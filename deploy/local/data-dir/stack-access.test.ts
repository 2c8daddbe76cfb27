import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { findRunningStack, loadCredentials } from './stack-access.ts'

const NONE = { projectApiKey: '', personalApiKey: '', clickhousePassword: '', analystPassword: '' }

t.test('generates keys and passwords once and keeps them for the owner only', async (t) => {
  const dataDir = t.testdir()

  const first = await loadCredentials(dataDir, NONE)

  t.match(first, { projectApiKey: /^phc_\w{40,}$/, personalApiKey: /^phx_\w{40,}$/ })
  t.same(await loadCredentials(dataDir, NONE), first)
  t.equal((await stat(path.join(dataDir, 'credentials.json'))).mode & 0o777, 0o600)
})

t.test('takes chosen keys on an empty data directory only, chosen ClickHouse passwords always', async (t) => {
  const dataDir = t.testdir()
  const chosen = { ...NONE, projectApiKey: 'phc_chosen', personalApiKey: 'phx_chosen' }

  const first = await loadCredentials(dataDir, chosen)
  const second = await loadCredentials(dataDir, { ...NONE, projectApiKey: 'phc_other', analystPassword: 'chosen' })

  t.match(first, { projectApiKey: 'phc_chosen', personalApiKey: 'phx_chosen' })
  t.same(second, { ...first, analystPassword: 'chosen' })
  t.notMatch(await readFile(path.join(dataDir, 'credentials.json'), 'utf8'), 'phc_other')
})

t.test('tells a stack that is stopped from a folder where none was ever started', async (t) => {
  const dataDir = t.testdir()
  t.equal(await findRunningStack(dataDir), undefined)
  t.equal(await findRunningStack(path.join(dataDir, 'missing')), undefined)

  await loadCredentials(dataDir, NONE)
  await t.rejects(findRunningStack(dataDir), { code: 'MILLRACE_STACK_NOT_RUNNING' })

  await writeFile(path.join(dataDir, 'addresses.json'), '{"natsUrl":"nats://127.0.0.1:9"}')
  t.match(await findRunningStack(dataDir), { natsUrl: 'nats://127.0.0.1:9' })
  await rm(path.join(dataDir, 'addresses.json'))
  await t.rejects(findRunningStack(dataDir), { code: 'MILLRACE_STACK_NOT_RUNNING' }, 'after it was stopped')
})
