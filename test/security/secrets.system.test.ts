import { readdir, readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { readAddresses } from '../../embedded/data-dir/stack-access.ts'
import { startStack } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'

t.test('no secret shows in logs, process lists, metrics or health, and only the hash of a key is stored', async (t) => {
  const stack = await startStack({ env: { MILLRACE_LOG_LEVEL: 'debug' } })
  t.teardown(async () => { await stack.stop() })
  const credentials = JSON.parse(await readFile(path.join(stack.dataDir, 'credentials.json'), 'utf8')) as Record<string, string>
  const send = async (to: string, body: string, key = stack.personalApiKey): Promise<number> => {
    const response = await fetch(stack.url + to, {
      method: 'POST', headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` }, body
    })
    await response.text()
    return response.status
  }
  const wrongKey = 'phx_a_wrong_but_secret_key'
  const event = { event: 'secret event', distinct_id: 'secret person', properties: { password: 'secret property' } }

  t.equal(await send('/capture/', JSON.stringify({ api_key: stack.projectApiKey, ...event })), 200)
  t.equal(await send('/capture/', JSON.stringify({ api_key: wrongKey, ...event })), 401)
  t.equal(await send('/capture/', `{"api_key": "${stack.projectApiKey}", "event": "secret event"`), 400)
  t.equal(await send('/api/projects/1/feature_flags/', '{"key": "secret flag"}', wrongKey), 401)
  t.equal(await send('/api/projects/1/feature_flags/', '{"key": "no/such!key"}'), 400)
  t.equal(await send('/decide/?v=3', JSON.stringify({ api_key: stack.projectApiKey, distinct_id: 'secret person' })), 200)
  await waitFor(async () => (await stack.select('SELECT 1 FROM events')).length === 1)
  await t.rejects(stack.select("SELECT throwIf(1, 'refused')"))

  const secrets = [...Object.values(credentials), wrongKey, 'secret event', 'secret person', 'secret property']
  const { baseUrl, apiUrl, pipelineUrl } = await readAddresses(stack.dataDir)
  const pages = [baseUrl, apiUrl, pipelineUrl].flatMap((url) => ['/metrics', '/_health'].map((page) => url + page))
  const shown = new Map<string, string>([
    ...await Promise.all(pages.map(async (url) => [url, await (await fetch(url)).text()] as const)),
    ...await readFolder(path.join(stack.dataDir, 'logs')),
    ...await readCommandLines()
  ])
  t.ok(shown.size > 12)
  for (const secret of secrets) {
    // The test itself is started without any of them.
    t.same([...shown].filter(([, text]) => text.includes(secret)).map(([where]) => where), [], `${secret.slice(0, 7)}... is nowhere`)
  }

  const [stored] = await stack.sql`SELECT secure_value, mask_value FROM personal_api_keys`
  t.match(stored?.secure_value, /^sha256\$[0-9a-f]{64}$/)
  t.notOk(String(stored?.mask_value).includes(stack.personalApiKey))
  t.equal((await stat(path.join(stack.dataDir, 'credentials.json'))).mode & 0o077, 0, 'others cannot read the credentials')
})

async function readFolder (folder: string): Promise<[string, string][]> {
  return await Promise.all((await readdir(folder)).map(async (name): Promise<[string, string]> =>
    [name, await readFile(path.join(folder, name), 'utf8')]))
}

/** What `ps` shows to every user of the machine. */
async function readCommandLines (): Promise<[string, string][]> {
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
  return await Promise.all(pids.map(async (pid): Promise<[string, string]> =>
    // A process may have ended meanwhile.
    [`process ${pid}`, await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')]))
}
