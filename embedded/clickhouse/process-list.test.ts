import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { startTestServer } from './testing/start-test-server.ts'

const HOME = tmpdir()

t.test('a data directory may have quotes, spaces and other alphabets in its path', async (t) => {
  const folder = await mkdtemp(path.join(HOME, 'chdb-it\'s a "disk" für наш '))
  t.teardown(async () => { await rm(folder, { recursive: true, force: true }) })
  process.env.TMPDIR = folder
  const server = await startTestServer(t)

  const list = 'SELECT query FROM system.processes'
  t.equal((await server.ask(list)).text, `${list}\n`)
  await server.stop('SIGKILL')
  await server.restart()
  t.equal((await server.ask(list)).text, `${list}\n`)
})

t.test('one with a backslash, which the engine cannot open, is refused with a sentence', async (t) => {
  const folder = await mkdtemp(path.join(HOME, 'chdb-test-back\\slash-'))
  t.teardown(async () => { await rm(folder, { recursive: true, force: true }) })
  process.env.TMPDIR = folder

  await t.rejects(startTestServer(t), { message: /--data-dir: ClickHouse cannot open .*: choose a folder without a backslash/ })
})
