import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import t from 'tap'
import { runCaptured } from '../testing/run-captured.ts'

t.test('an export that breaks off leaves no data of the person', async (t) => {
  let isCutOff = true
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/zip' }).write('personal data')
    setTimeout(() => isCutOff ? response.destroy() : response.end(), 200)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close() })
  const folder = t.testdir({})
  const env = { MILLRACE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, MILLRACE_KEY: 'mrk_x' }
  const exportTo = async (): Promise<number> => (await runCaptured(['persons', 'export', 'ann', path.join(folder, 'ann.zip')], env)).code

  t.not(await exportTo(), 0)
  t.same(await readdir(folder), [])

  isCutOff = false
  t.equal(await exportTo(), 0)
  t.same(await readdir(folder), ['ann.zip'])
  t.equal(await readFile(path.join(folder, 'ann.zip'), 'utf8'), 'personal data')
})
