import t from 'tap'
import { readAddresses } from '../../embedded/data-dir/stack-access.ts'
import { startStack } from '../start-stack.ts'
import { sendRaw } from '../support/local-ports.ts'
import { spellPath } from '../support/path-spellings.ts'

t.test('the origin answers no health and no metrics of the API, however the path is spelled', async (t) => {
  const stack = await startStack()
  t.teardown(async () => { await stack.stop() })
  const { baseUrl, apiUrl } = await readAddresses(stack.dataDir)
  const ask = async (url: string, path: string): Promise<string> =>
    await sendRaw(Number(new URL(url).port), `GET ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`)
  const [, apiPid = ''] = /"pid":(\d+)/.exec(await ask(apiUrl, '/_readiness')) ?? []
  t.not(apiPid, '')

  for (const [path, ofApi] of [['/metrics', 'millrace_api_'], ['/_readiness', `"pid":${apiPid}`], ['/_health', 'flag definitions']] as const) {
    t.ok((await ask(apiUrl, `${path}/`)).includes(ofApi), `the API itself takes ${path}/`)
    const shown: string[] = []
    for (const spelling of spellPath(path)) if ((await ask(baseUrl, spelling)).includes(ofApi)) shown.push(spelling)
    t.same(shown, [], path)
  }
  t.match(await ask(baseUrl, '/_liveness/'), /^HTTP\/1\.1 404 /)
})
