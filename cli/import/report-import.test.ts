/** What the management API shows of an import, and how it is stopped there, on the whole system. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { createStackProject, type StackProject } from '../../test/start-stack.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { type Captured, runCaptured } from '../testing/run-captured.ts'

const ROWS = 3000

interface Shown {
  stack: StackProject
  run: (key: string, ...args: string[]) => Promise<Captured>
  ask: (method: string, path: string) => Promise<any>
  createKey: (...scopes: string[]) => Promise<string>
}

async function startImport (t: Test): Promise<Shown> {
  const stack = await createStackProject(t)
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-report-'))
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
  return {
    stack, ask,
    run: async (key, ...args) => await runCaptured([
      'import', 'posthog', path.join(folder, 'a.jsonl'), '--project', String(stack.project), '--state', path.join(folder, 'state'), ...args
    ], { MILLRACE_URL: stack.url, MILLRACE_KEY: key }),
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
  }, { timeoutMs: 60_000 })
  t.match(record, {
    source: 'posthog', mode: 'import', state: 'running', file_count: 1, options: ['--persons export', '--events-per-second 100'], is_silent: false, ended_at: null,
    created_by: { id: Number }
  })
  t.ok(record.progress.accepted < ROWS && record.progress.bytes_read <= record.bytes, JSON.stringify(record))

  t.match(await ask('POST', `~/imports/${record.id}/stop/`), { id: record.id, stop_requested_at: String })
  t.match(await running, { code: 1, err: /stopped over the management API; run the same command to resume it/ })
  t.match(await ask('GET', `~/imports/${record.id}/`), { state: 'interrupted', error: 'MILLRACE_IMPORT_STOPPED', result: null, ended_at: String })

  t.match(await run(stack.personalApiKey, '--events-per-second', '0'), { code: 5, out: /complete +yes/ })
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
  t.match(await run(stack.personalApiKey, '--dry-run'), { code: 5 })
  t.match(await list(), [{ mode: 'dry_run', progress: { accepted: 0, rows: ROWS + 2 } }, { id: record.id }])
})

t.test('an import whose key may not report goes on, and says so once', async (t) => {
  const { run, ask, createKey } = await startImport(t)
  const { code, err } = await run(await createKey('project:read', 'event:read'), '--events-per-second', '0')
  t.equal(code, 5, err)
  t.equal(err.match(/its record in the API is incomplete/g)?.length, 1)
  t.same((await ask('GET', '~/imports/')).results, [])
})
