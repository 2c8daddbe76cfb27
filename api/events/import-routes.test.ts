import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { createLogger } from '../../platform/logger.ts'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { PATIENCE_MS } from '../../test/support/wait-for.ts'
import { createTestApi, type TestApi } from '../testing/create-test-api.ts'
import { createImportRunner } from './start-import.ts'

const api = await createTestApi(t)

const begin = {
  checkpoint: randomUUID(), source: 'posthog', mode: 'import', options: ['--events-per-second 5000'], version: '0.1.0',
  files: [{ name: 'a.jsonl', bytes: 700 }, { name: '<b>\u202e.jsonl', bytes: 300 }], file_count: 2, bytes: 1000
}
const progress = { rows: 10, accepted: 8, rejected: 2, bytes_read: 400, events_per_second: 5, reasons: [{ reason: 'timestamp is missing', rows: 2 }] }
const result = {
  events: 8, duplicates: 0, altered: 0, conflicting: 0, stored: 8, broken: [], notices: ['Mapping: --map event=name'],
  proof: {
    is_complete: true, groups: 2, equal: 1,
    rows: [{ day: '2026-01-01', event: 'paid', events: 4, missing: 0, changed: 0, other_properties: 1 }],
    differences: [{ uuid: randomUUID(), day: '2026-01-01', event: 'paid', what: 'properties' }]
  }
}

async function start (of: TestApi = api, body: object = { ...begin, checkpoint: randomUUID() }): Promise<number> {
  const { status, body: { id } } = await of.call('POST', '~/imports/', body)
  if (status > 201) throw new Error(`answered ${status}`)
  return id
}

t.test('an import reports how far it is, and ends with its proof', async (t) => {
  const project = await api.inNewProject()
  const id = await start(project, begin)
  const path = `~/imports/${id}/`
  const { checkpoint, files, ...shown } = begin
  t.match((await project.call('GET', path)).body, {
    ...shown, files, id, team_id: project.projectId, state: 'running', is_silent: false, error: null, result: null, ended_at: null,
    created_by: { email: 'ann@example.com' }, progress: { rows: 0, accepted: 0, reasons: [] }
  })

  t.match(await project.call('POST', `${path}report`, { state: 'running', progress }), { status: 200, body: { stop: false } })
  const { body: { results: [listed] } } = await project.call('GET', '~/imports/')
  t.match(listed, { id, state: 'running', progress: { rows: 10, accepted: 8, rejected: 2, bytes_read: 400, events_per_second: 5 } })
  for (const field of ['files', 'result', 'checkpoint']) t.notOk(field in listed, field)
  t.notOk('reasons' in listed.progress)

  t.match(await project.call('POST', `${path}report`, { state: 'complete_with_differences', progress, result }), { status: 200 })
  t.match((await project.call('GET', path)).body, { state: 'complete_with_differences', progress, result, ended_at: String })
  t.match(await project.call('POST', `${path}report`, { state: 'running', progress }), { status: 409, body: { code: 'conflict' } }, 'a late report changes nothing')
  t.match(await project.call('POST', `${path}stop`), { status: 409, body: { code: 'conflict' } })
})

t.test('a resumed import goes on in its record; what somebody asked of the run before is over', async (t) => {
  const checkpoint = randomUUID()
  const id = await start(api, { ...begin, checkpoint })
  await api.call('POST', `~/imports/${id}/report`, { state: 'running', progress })
  t.match(await api.call('POST', `~/imports/${id}/stop`), { status: 200, body: { id, stop_requested_at: String, state: 'running' } })
  t.match(await api.call('POST', `~/imports/${id}/report`, { state: 'running', progress }), { body: { stop: true } })
  await api.call('POST', `~/imports/${id}/report`, { state: 'interrupted', progress, error: 'MILLRACE_IMPORT_STOPPED' })
  t.match((await api.call('GET', `~/imports/${id}`)).body, { state: 'interrupted', error: 'MILLRACE_IMPORT_STOPPED' })

  t.match(await api.call('POST', '~/imports/', { ...begin, checkpoint, bytes: 2000 }), { status: 200, body: { id } })
  t.match((await api.call('GET', `~/imports/${id}`)).body, {
    state: 'running', bytes: 2000, progress, error: null, stop_requested_at: null, ended_at: null
  })
  t.match(await api.call('POST', `~/imports/${id}/report`, { state: 'proving', progress }), { body: { stop: false } })
  t.not(await start(await api.inNewProject(), { ...begin, checkpoint }), id, 'the same checkpoint in another project is another import')
})

t.test('an import that does not report is silent until it ends', async (t) => {
  const id = await start()
  await api.sql`UPDATE imports SET last_reported_at = now() - interval '61 seconds' WHERE id = ${id}`
  t.match((await api.call('GET', `~/imports/${id}`)).body, { state: 'running', is_silent: true })
  await api.call('POST', `~/imports/${id}/report`, { state: 'running', progress })
  t.match((await api.call('GET', `~/imports/${id}`)).body, { is_silent: false })
  await api.call('POST', `~/imports/${id}/report`, { state: 'interrupted', progress })
  await api.sql`UPDATE imports SET last_reported_at = now() - interval '1 day' WHERE id = ${id}`
  t.match((await api.call('GET', `~/imports/${id}`)).body, { state: 'interrupted', is_silent: false })

  const silent = await start()
  await api.sql`UPDATE imports SET last_reported_at = now() - interval '61 seconds' WHERE id = ${silent}`
  t.equal((await api.call('DELETE', `~/imports/${silent}`)).status, 204, 'nobody waits for a report that does not come')
})

t.test('an API without a folder of exports runs no import', async (t) => {
  t.same((await api.call('GET', '~/imports/files')).body, { folder: null, files: [] })
  t.match(await api.call('POST', '~/imports/run', { source: 'posthog' }), { status: 409, body: { code: 'conflict', detail: /MILLRACE_IMPORT_FOLDER/ } })
})

t.test('an API process runs two imports at a time, and says why one did not begin', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-imports-'))
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  const database = await createTestPostgres(t)
  const imports = createImportRunner({
    folder, url: 'http://127.0.0.1:9', sql: database.sql, now: Date.now, beginMs: PATIENCE_MS, logger: createLogger({ component: 'api', level: 'silent' })
  })
  const running = await createTestApi(t, { imports }, database)
  const projects = await Promise.all([0, 1, 2].map(async () => await running.inNewProject()))
  const start = async (of: TestApi) => await of.call('POST', '~/imports/run', { source: 'posthog' })
  const started = [projects[0]!, projects[1]!].map(start)
  t.match(await start(projects[2]!), { status: 409, body: { detail: /already running 2 imports/ } })
  t.match(await start(projects[0]!), { status: 409, body: { detail: /already running an import of this project/ } })
  for (const answer of started) t.match(await answer, { status: 400, body: { detail: /the API at http:.*:9 does not answer/ } })
  t.same(await database.sql`SELECT 1 FROM personal_api_keys WHERE label = 'import run by the API'`, [], 'their keys are gone')
})

t.test('invalid fields are refused by name, and store nothing', async (t) => {
  const project = await api.inNewProject()
  const id = await start(project)
  const many = (count: number, item: object | string): unknown[] => Array.from({ length: count }, () => item)
  const withRow = (row: object): object => ({ state: 'complete', progress, result: { ...result, proof: { ...result.proof, rows: [{ ...result.proof.rows[0], ...row }] } } })
  for (const [path, body, attr] of [
    ['', { ...begin, checkpoint: 'x' }, 'checkpoint'], ['', { ...begin, mode: 'job' }, 'mode'], ['', { ...begin, bytes: -1 }, 'bytes'],
    ['', { ...begin, files: [{ name: 'n'.repeat(201), bytes: 1 }] }, 'files__0__name'], ['', { ...begin, files: [{ name: 'a', bytes: 1, content: 'x' }] }, 'files__0__content'],
    ['', { ...begin, files: many(501, { name: 'a', bytes: 1 }) }, 'files'], ['', { ...begin, options: many(21, 'x') }, 'options'],
    ['', { ...begin, source: '' }, 'source'], ['', { ...begin, source: 'a\0' }, 'source'], ['', { ...begin, files: [{ name: '\ud800', bytes: 1 }] }, 'files__0__name'],
    [`${id}/report`, { state: 'done', progress }, 'state'], [`${id}/report`, { state: 'running' }, 'progress'],
    [`${id}/report`, { state: 'running', progress: { ...progress, rows: 1.5 } }, 'progress__rows'],
    [`${id}/report`, { state: 'running', progress: { ...progress, text: 'of a row' } }, 'progress__text'],
    [`${id}/report`, { state: 'running', progress: { ...progress, reasons: many(51, progress.reasons[0]!) } }, 'progress__reasons'],
    [`${id}/report`, { state: 'interrupted', progress, error: 'the row says: ann@example.com' }, 'error'],
    [`${id}/report`, withRow({ day: 'yesterday' }), 'result__proof__rows__0__day'], [`${id}/report`, withRow({ distinct_id: 'ann' }), 'result__proof__rows__0__distinct_id'],
    [`${id}/report`, { state: 'complete', progress, result: { ...result, proof: { ...result.proof, rows: many(501, result.proof.rows[0]!) } } }, 'result__proof__rows']
  ] as const) t.match(await project.call('POST', `~/imports/${path}`, body), { status: 400, body: { attr } }, `${path} ${attr}`)
  t.match((await project.call('GET', '~/imports/')).body, { count: 1, results: [{ state: 'running', progress: { rows: 0 } }] })
})

t.test('a record is seen in its project alone, is deleted, and the oldest make room', async (t) => {
  const [one, other] = [await api.inNewProject(), await api.inNewProject()]
  const id = await start(one)
  for (const [method, path, body] of [
    ['GET', '', undefined], ['DELETE', '', undefined], ['POST', '/stop', undefined], ['POST', '/report', { state: 'running', progress }]
  ] as const) t.match(await other.call(method, `~/imports/${id}${path}`, body), { status: 404 }, `${method} ${path}`)
  t.match(await one.call('DELETE', `~/imports/${id}`), { status: 409, body: { code: 'conflict' } }, 'without its record nobody would stop it')
  await one.call('POST', `~/imports/${id}/report`, { state: 'interrupted', progress })
  t.equal((await one.call('DELETE', `~/imports/${id}`)).status, 204)
  for (const [method, path, body] of [
    ['GET', '', undefined], ['DELETE', '', undefined], ['POST', '/stop', undefined], ['POST', '/report', { state: 'running', progress }]
  ] as const) t.match(await one.call(method, `~/imports/${id}${path}`, body), { status: 404 }, `${method} ${path} of a deleted one`)

  const kept = await start(other)
  const running = await start(one)
  const ids = []
  for (let i = 0; i < 201; i++) {
    ids.push(await start(one))
    await one.call('POST', `~/imports/${ids.at(-1)}/report`, { state: 'interrupted', progress })
  }
  const { body: page } = await one.call('GET', '~/imports/?limit=150')
  t.same([page.count, page.results[0].id], [200, ids.at(-1)])
  const rest = await one.call('GET', new URL(page.next).pathname.replace(/^.*\/imports/, '~/imports') + new URL(page.next).search)
  t.same([...page.results, ...rest.body.results].map((each) => each.id), [...ids.slice(2).reverse(), running], 'one that runs does not make room for others that have ended')
  t.equal((await other.call('GET', `~/imports/${kept}`)).status, 200)
})

t.test('the largest that an importer sends fits into a body', async (t) => {
  const name = '\u0001'.repeat(200)
  const files = Array.from({ length: 500 }, () => ({ name, bytes: Number.MAX_SAFE_INTEGER }))
  const id = await start(api, { ...begin, checkpoint: randomUUID(), files })
  const wide = { day: '2026-01-01', event: name, events: 1e15, missing: 1e15, changed: 1e15, other_properties: 1e15 }
  const proof = {
    ...result.proof, rows: Array.from({ length: 500 }, () => wide),
    differences: Array.from({ length: 100 }, () => ({ uuid: randomUUID(), day: '2026-01-01', event: name, what: 'missing' }))
  }
  t.equal((await api.call('POST', `~/imports/${id}/report`, { state: 'incomplete', progress, result: { ...result, proof } })).status, 200)
  t.match((await api.call('GET', `~/imports/${id}`)).body, { files, result: { proof } })
})
