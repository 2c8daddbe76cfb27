/** What stands for PostHog in tests: saved files, and a server that answers as its API does. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { TestContext } from '../../test/support/test-context.ts'

/** @param answer  Content of an answer; undefined: 403. @returns the URL. */
export async function startHttp (
  t: TestContext, answer: (path: string, authorization?: string) => unknown
): Promise<string> {
  const server = createServer(({ url = '', headers }, response) => {
    const content = answer(url, headers.authorization)
    response.writeHead(content === undefined ? 403 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(content ?? {}))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => { server.close() })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** @returns the folder with these files. */
export async function writeFiles (t: TestContext, files: Record<string, unknown>): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-flags-'))
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  for (const [name, content] of Object.entries(files)) await writeFile(path.join(folder, name), typeof content === 'string' ? content : JSON.stringify(content))
  return folder
}
