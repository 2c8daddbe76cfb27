/** What the management API shows of an import, and how it is stopped there, on the whole system. */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { text as readAll } from 'node:stream/consumers'
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { createStackProject, type StackProject } from '../../test/start-stack.ts'
import { storesFolder } from '../../test/support/stores-folder.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { type Captured, matchCaptured, runCaptured } from '../testing/run-captured.ts'

const ROWS = 3000

interface Shown {
  stack: StackProject
  run: (key: string, ...args: string[]) => Promise<Captured>
  /** The same at another address than that of the stack. */
  runAt: (url: string, ...args: string[]) => Promise<Captured>
  /** What the command line has. */
  args: string[]
  /** Has the file and the state. */
  folder: string
  ask: (method: string, path: string, body?: object) => Promise<any>
  createKey: (...scopes: string[]) => Promise<string>
}

async function startImport (t: Test): Promise<Shown> {
  const stack = await createStackProject(t)
  const folder = await mkdtemp(path.join(storesFolder(), 'millrace-report-'))
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  const rows = Array.from({ length: ROWS }, (_, i) => JSON.stringify({
    uuid: `${i.toString(16).padStart(8, '0')}-aaaa-4bbb-8ccc-123456789012`, event: i % 2 === 0 ? 'seen' : 'paid', distinct_id: 'ann',
    timestamp: new Date(Date.parse('2023-01-01') + i * 60_000).toISOString(), properties: {}
  }))
  await writeFile(path.join(folder, 'a.jsonl'), [...rows, '{"event":""}', 'no JSON', ''].join('\n'))
  const ask = async (method: string, url: string, body?: object): Promise<any> => {
    const response = await fetch(`${stack.url}${url.replace('~', `/api/projects/${stack.project}`)}`, {
      method, headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' },
      ...body && { body: JSON.stringify(body) }
    })
    return await response.json()
  }
  const where = ['--project', String(stack.project), '--state', path.join(folder, 'state')]
  const args = ['import', 'posthog', path.join(folder, 'a.jsonl'), ...where]
  const runAt = async (url: string, key: string, more: string[]): Promise<Captured> =>
    await runCaptured([...args, ...more], { MILLRACE_URL: url, MILLRACE_KEY: key })
  return {
    stack, ask, args, folder,
    run: async (key, ...more) => await runAt(stack.url, key, more),
    runAt: async (url, ...more) => await runAt(url, stack.personalApiKey, more),
    createKey: async (...scopes) => (await ask('POST', '/api/personal_api_keys/', { label: 'import', scopes, scoped_teams: [stack.project] })).value
  }
}

t.test('an import shows how far it is, is stopped over the API, goes on and ends with its proof', async (t) => {
  const { stack, run, ask } = await startImport(t)
  const list = async (): Promise<any[]> => (await ask('GET', '~/imports/')).results
  const running = run(stack.personalApiKey, '--events-per-second', '100')
  let record: any
  await waitFor(async () => {
    [record] = await list()
    return record?.progress?.accepted > 0
  })
  t.match(record, {
    source: 'posthog', mode: 'import', state: 'running', file_count: 1, options: ['--persons export', '--events-per-second 100'], is_silent: false, ended_at: null,
    created_by: { id: Number }
  })
  t.ok(record.progress.accepted < ROWS && record.progress.bytes_read <= record.bytes, JSON.stringify(record))

  t.match(await ask('POST', `~/imports/${record.id}/stop/`), { id: record.id, stop_requested_at: String })
  matchCaptured(t, await running, { code: 1, err: /stopped over the management API; run the same command to resume it/ })
  t.match(await ask('GET', `~/imports/${record.id}/`), { state: 'interrupted', error: 'MILLRACE_IMPORT_STOPPED', result: null, ended_at: String })

  matchCaptured(t, await run(stack.personalApiKey, '--events-per-second', '0'), { code: 5, out: /complete +yes/ })
  t.equal((await list()).length, 1, 'the same record')
  const ended = await ask('GET', `~/imports/${record.id}/`)
  t.match(ended, {
    state: 'complete_with_differences', error: null, stop_requested_at: null, files: [{ name: 'a.jsonl' }],
    progress: { rows: ROWS + 2, accepted: ROWS, rejected: 2, bytes_read: ended.bytes },
    result: { events: ROWS, duplicates: 0, proof: { is_complete: true, groups: 6, equal: 6, differences: [] } }
  })
  t.equal(ended.progress.reasons.reduce((sum: number, { rows }: { rows: number }) => sum + rows, 0), 2)
  const [{ n }] = await stack.select<{ n: string }>(`SELECT count() AS n FROM events WHERE project_id = ${stack.project}`) as [{ n: string }]
  t.equal(Number(n), ROWS)

  // Another run is another import.
  matchCaptured(t, await run(stack.personalApiKey, '--dry-run'), { code: 5 })
  t.match(await list(), [{ mode: 'dry_run', progress: { accepted: 0, rows: ROWS + 2 } }, { id: record.id }])
})

t.test('an import whose key may not report goes on, and says so once', async (t) => {
  const { run, ask, createKey } = await startImport(t)
  const { code, err } = await run(await createKey('project:read', 'event:read'), '--events-per-second', '0')
  t.equal(code, 5, err)
  t.equal(err.match(/the API may not show all of its progress/g)?.length, 1)
  t.same((await ask('GET', '~/imports/')).results, [])
})

t.test('one that was killed is silent after a minute, and the same command goes on in its record', async (t) => {
  const { stack, run, ask, args } = await startImport(t)
  const child = spawn(process.execPath, [path.join(import.meta.dirname, '../main.ts'), ...args, '--events-per-second', '100'], {
    env: { ...process.env, MILLRACE_URL: stack.url, MILLRACE_KEY: stack.personalApiKey }, stdio: 'ignore'
  })
  const ended = once(child, 'exit')
  let record: any
  await waitFor(async () => {
    [record] = (await ask('GET', '~/imports/')).results
    return record?.progress?.accepted > 0
  })
  t.match(await ask('DELETE', `~/imports/${record.id}/`), { code: 'conflict', detail: 'The import is running: stop it first.' })
  child.kill('SIGKILL')
  await ended
  await stack.sql`UPDATE imports SET last_reported_at = last_reported_at - interval '1 minute' WHERE id = ${record.id}`
  t.match(await ask('GET', `~/imports/${record.id}/`), { state: 'running', is_silent: true, ended_at: null })

  matchCaptured(t, await run(stack.personalApiKey, '--events-per-second', '0'), { code: 5, out: /complete +yes/ })
  t.match((await ask('GET', '~/imports/')).results, [{ id: record.id, state: 'complete_with_differences', is_silent: false, progress: { accepted: ROWS } }])
})

t.test('events that are sent once more, as the store has lost them, stay accepted', async (t) => {
  const { stack, run, ask } = await startImport(t)
  matchCaptured(t, await run(stack.personalApiKey, '--events-per-second', '0'), { code: 5 })
  await stack.clickhouse.command({
    query: `DELETE FROM events WHERE project_id = ${stack.project} AND event = 'paid' SETTINGS lightweight_deletes_sync = 2`
  })
  matchCaptured(t, await run(stack.personalApiKey, '--events-per-second', '0'), { code: 5, out: new RegExp(`sent now +${ROWS / 2}\\n`) })
  t.match((await ask('GET', '~/imports/')).results[0], { state: 'complete_with_differences', progress: { accepted: ROWS } })
})

t.test('an API that is away at the end gets the last report when it is back', async (t) => {
  const { stack, runAt, ask } = await startImport(t)
  let refused = 0
  // Ends connections with the last report, as a process that stops does.
  const way = await startWay(t, stack, (incoming, body) => {
    const isLast = /\/report$/.test(incoming.url ?? '') && body.includes('"result"') && ++refused < 3
    if (isLast) incoming.destroy()
    return isLast
  })

  const { code, err } = await runAt(way, '--events-per-second', '0')
  t.equal(code, 5, err)
  t.match(err, /the API may not show all of its progress: the API at .* does not answer/)
  t.equal(refused, 3)
  t.match((await ask('GET', '~/imports/')).results, [{ state: 'complete_with_differences', ended_at: String }])
})

t.test('an event that a proxy refuses as too large is rejected in each run, until the proxy lets it through', async (t) => {
  const { stack, run, runAt, ask, folder } = await startImport(t)
  const large = { event: 'seen', distinct_id: 'ann', timestamp: '2023-01-01T00:00:00Z', properties: { note: 'too large' } }
  await writeFile(path.join(folder, 'a.jsonl'), `${JSON.stringify(large)}\n`, { flag: 'a' })
  const way = await startWay(t, stack, (incoming, body, outgoing) => {
    const isRefused = incoming.url === '/batch/' && body.includes('too large')
    if (isRefused) outgoing.writeHead(413).end()
    return isRefused
  })
  const rejected = { file: 'a.jsonl', row: ROWS + 3, error: `refused as too large by ${way}/batch/` }
  const counts = { rows: ROWS + 3, accepted: ROWS, rejected: 3 }
  for (const args of [[], [], ['--verify']]) {
    matchCaptured(t, await runAt(way, '--events-per-second', '0', ...args),
      { code: 5, out: new RegExp(`events +${ROWS}\\nduplicates +0\\nrejected +3\\n[^]*complete +yes`) }, args.join())
    const [record] = (await ask('GET', '~/imports/')).results
    t.match(await ask('GET', `~/imports/${record.id}/`), {
      state: 'complete_with_differences', progress: { ...counts, accepted: args.length === 0 ? ROWS : 0 },
      result: { events: ROWS, duplicates: 0, proof: { is_complete: true, groups: 6, equal: 6, differences: [] } }
    })
    const lines = (await readFile(path.join(folder, 'state/rejected.ndjson'), 'utf8')).split('\n')
    t.same(lines.filter((line) => line.includes('refused')).map((line) => JSON.parse(line)), [rejected])
  }

  matchCaptured(t, await run(stack.personalApiKey, '--events-per-second', '0'),
    { code: 5, out: new RegExp(`events +${ROWS + 1}\\nduplicates +0\\nrejected +2\\n[^]*sent now +1\\n[^]*complete +yes`) })
})

/** The way to a stack: a proxy that passes on every request that `answer` does not answer itself. @returns its URL. */
async function startWay (
  t: Test, stack: StackProject,
  answer: (incoming: IncomingMessage, body: string, outgoing: ServerResponse) => boolean
): Promise<string> {
  const way = createServer((incoming, outgoing) => {
    void readAll(incoming).then((body) => {
      if (answer(incoming, body, outgoing)) return
      const onward = request(new URL(incoming.url ?? '', stack.url), { method: incoming.method, headers: incoming.headers }, (answer) => {
        outgoing.writeHead(Number(answer.statusCode), answer.headers)
        answer.pipe(outgoing)
      })
      onward.end(body)
    })
  }).listen(0, '127.0.0.1')
  await once(way, 'listening')
  t.teardown(() => { way.close().closeAllConnections() })
  return `http://127.0.0.1:${(way.address() as AddressInfo).port}`
}

t.test('the API runs an import of what lies on the server, with a key that ends with it', async (t) => {
  const { stack, ask, createKey } = await startImport(t)
  const { folder, files } = await ask('GET', '~/imports/files/')
  t.match(folder, new RegExp(`/imports/${stack.project}$`))
  t.same(files, [], 'nothing is there')
  /** Waits while the API runs as many imports of other tests as it may. */
  const start = async (body: object, key = stack.personalApiKey): Promise<any> => await waitFor(async () => {
    const response = await fetch(`${stack.url}/api/projects/${stack.project}/imports/run/`, {
      method: 'POST', headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, body: JSON.stringify(body)
    })
    const answer: any = await response.json()
    return !/already running \d+ imports/.test(answer.detail) && { status: response.status, body: answer }
  })
  const list = async (): Promise<any[]> => (await ask('GET', '~/imports/')).results
  /** Waits for the import before. On a busy machine the answer has no id. */
  const begin = async (body: object, key?: string): Promise<number> => {
    const before = await list()
    const answer = await waitFor(async () => {
      const answer = await start(body, key)
      return answer.status !== 409 && answer
    })
    t.equal(answer.status, 201, JSON.stringify(answer.body))
    return answer.body.id ?? await waitFor(async () =>
      (await list()).find((each) => !before.some((other) => isDeepStrictEqual(each, other)))?.id)
  }
  const ended = async (id: number): Promise<any> => await waitFor(async () => {
    const found = await ask('GET', `~/imports/${id}/`)
    return found.ended_at !== null && found
  })
  t.match(await start({ source: 'posthog', name: 'a.jsonl' }), { status: 400, body: { attr: 'name' } })
  t.match(await start({ source: 'posthog' }), { status: 400, body: { detail: /no files in/ } })

  await mkdir(path.join(folder, 'export'), { recursive: true })
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  const at = '2023-01-01T00:00:00.000Z'
  const rows = Array.from({ length: 400 }, () => JSON.stringify({ uuid: randomUUID(), event: 'seen', distinct_id: 'ann', timestamp: at, properties: {} }))
  await writeFile(path.join(folder, 'export', 'a.jsonl'), `${rows.join('\n')}\n`)
  await writeFile(path.join(folder, '.hidden.jsonl'), '')
  await writeFile(path.join(folder, 'notes.md'), 'text')
  t.same((await ask('GET', '~/imports/files/')).files, [{ name: 'export', is_folder: true, bytes: null }, { name: 'notes.md', is_folder: false, bytes: 4 }])
  for (const name of ['.hidden.jsonl', '..', '../1', 'export/a.jsonl', '/etc/passwd']) {
    t.match(await start({ source: 'posthog', name }), { status: 400, body: { attr: 'name' } }, name)
  }
  t.match(await start({ source: 'posthog', timezone: 'UTC' }), { status: 400, body: { detail: /--timezone is an option of mixpanel/ } })
  t.match(await start({ source: 'mixpanel', timezone: 'Mars' }), { status: 400, body: { detail: /give the name of a time zone/ } })
  t.match(await start({ source: 'files', map: { price: 'a' } }), { status: 400, body: { attr: 'map__price' } })
  t.match(await start({ source: 'posthog' }, await createKey('event:write')), { status: 403 })

  t.match(await ended(await begin({ source: 'posthog', dry_run: true })), {
    mode: 'dry_run', state: 'complete', progress: { rows: 400, accepted: 0 },
    result: { notices: [/^notes.md: left out/, /^Persons: from person rows only/] }
  })
  const slow = await begin({ source: 'posthog', name: 'export', events_per_second: 20 })
  t.match(await start({ source: 'posthog' }), { status: 409, body: { code: 'conflict' } })
  t.match(await stack.sql`SELECT scopes, project_ids, expires_at < now() + interval '61 minutes' AS ends FROM personal_api_keys WHERE label = 'import run by the API' AND project_ids = ARRAY[${stack.project}::integer]`, [
    { scopes: ['project:read', 'event:read', 'event:write'], project_ids: [stack.project], ends: true }
  ])
  await ask('POST', `~/imports/${slow}/stop/`)
  t.match(await ended(slow), { state: 'interrupted', error: 'MILLRACE_IMPORT_STOPPED', created_by: { id: Number } })
  const again = await begin({ source: 'posthog', name: 'export', events_per_second: 0 })
  t.equal(again, slow, 'it goes on')
  t.match(await ended(again), { state: 'complete', result: { proof: { is_complete: true, groups: 1, equal: 1 } } })
  const [{ n }] = await stack.select<{ n: string }>(`SELECT count() AS n FROM events WHERE project_id = ${stack.project}`) as [{ n: string }]
  t.equal(Number(n), 400)

  // Whoever revokes the key ends the import, and its report says that it ended.
  const maker = await ask('POST', '/api/personal_api_keys/', { label: 'maker', scopes: ['project:read', 'event:write'], scoped_teams: [stack.project] })
  const revoked = await begin({ source: 'posthog', name: 'export', events_per_second: 1 }, maker.value)
  await fetch(`${stack.url}/api/personal_api_keys/${maker.id}/`, { method: 'DELETE', headers: { authorization: `Bearer ${stack.personalApiKey}` } })
  t.match(await ended(revoked), { state: 'interrupted', error: 'MILLRACE_IMPORT_ENDED' })
  await waitFor(async () => (await stack.sql`SELECT 1 FROM personal_api_keys WHERE label = 'import run by the API' AND project_ids = ARRAY[${stack.project}::integer]`).length === 0)
})

t.test('an import ends with its report, or with the channel of the process that runs it', async (t) => {
  const { stack, run, ask, args } = await startImport(t)
  const running = run(stack.personalApiKey, '--events-per-second', '20')
  const { id } = await waitFor(async () => (await ask('GET', '~/imports/')).results[0])
  await stack.sql`DELETE FROM imports WHERE id = ${id}`
  matchCaptured(t, await running, { code: 1, err: /the record of the import was deleted; run the same command to resume it/ })

  const child = spawn(process.execPath, [path.join(import.meta.dirname, '../main.ts'), ...args, '--events-per-second', '20'], {
    env: { PATH: process.env.PATH, MILLRACE_URL: stack.url, MILLRACE_KEY: stack.personalApiKey }, stdio: ['ignore', 'ignore', 'ignore', 'ipc']
  })
  const exited = once(child, 'exit')
  await once(child, 'message')
  child.disconnect()
  t.same(await exited, [1, null])
})

t.test('files of another product are not complete', async (t) => {
  const stack = await createStackProject(t)
  const folder = await mkdtemp(path.join(storesFolder(), 'millrace-other-'))
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  await writeFile(path.join(folder, 'a.json'), '{"name":"of something else"}\n{"name":"again"}\n')
  const where = ['--project', String(stack.project), '--state', path.join(folder, 'state')]
  matchCaptured(t, await runCaptured(['import', 'amplitude', path.join(folder, 'a.json'), ...where], { MILLRACE_URL: stack.url, MILLRACE_KEY: stack.personalApiKey }), { code: 1, out: /rejected +2\n/ })
})
