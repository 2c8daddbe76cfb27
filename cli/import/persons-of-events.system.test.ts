/** `--persons events` of exports whose events have `person_properties`: the latest value of each property stays. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import zlib from 'node:zlib'
import { parquetWriteBuffer } from 'hyparquet-writer'
import t from 'tap'
import type { StackProject } from '../../test/start-stack.ts'
import { createRandom, pickOne, type Random, shuffle } from '../../test/support/random.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { matchCaptured } from '../testing/run-captured.ts'
import { lines, nested, posthogRow, START, startImport } from '../testing/start-import.ts'
import type { ImportResult } from './import-options.ts'

const USERS = 20
const SEED = Number(process.env.MILLRACE_TEST_SEED ?? 57)

interface Exported { rows: Record<string, unknown>[], expected: [id: string, properties: object][] }

/** An export as of this autumn: no `$set` in the properties, and the person as it was at each event. */
function buildExport (random: Random, count: number): Exported {
  const latest = new Map<string, Map<string, { at: number, value: unknown }>>()
  const rows = Array.from({ length: count }, (_, i) => {
    const id = `user ${i % USERS}`
    const at = START + Math.floor(random() * 1e10)
    const person: Record<string, unknown> = random() < 0.1
      ? {}
      : { plan: pickOne(['free', 'pro', null], random), ...random() < 0.5 && { visits: i }, ...random() < 0.05 && { tags: ['a', { b: 1e300 }] } }
    const known = latest.get(id) ?? new Map<string, { at: number, value: unknown }>()
    latest.set(id, known)
    for (const [name, value] of Object.entries(person)) {
      if (at > (known.get(name)?.at ?? 0)) known.set(name, { at, value })
    }
    return {
      ...posthogRow(i, ['seen']), distinct_id: id, timestamp: new Date(at).toISOString(), properties: '{"amount":1}',
      person_properties: JSON.stringify(person)
    }
  })
  const expected = [...latest].map(([id, properties]): [string, object] =>
    [id, Object.fromEntries([...properties].map(([name, { value }]) => [name, value]))])
  return { rows, expected: expected.sort(([a], [b]) => a < b ? -1 : 1) }
}

const asJson = (row: Record<string, unknown>): object =>
  ({ ...nested(row), person_properties: JSON.parse(String(row['person_properties'])) })

async function readPersons ({ sql, project }: StackProject): Promise<unknown[]> {
  const rows = await sql<{ id: string, properties: object }[]>`
    SELECT d.distinct_id AS id, p.properties FROM persons p JOIN person_distinct_ids d ON d.person_id = p.id
    WHERE p.project_id = ${project} ORDER BY d.distinct_id COLLATE "C"`
  return rows.map(({ id, properties }) => [id, properties])
}

async function capture ({ url, projectApiKey }: StackProject, batch: object[]): Promise<void> {
  const response = await fetch(`${url}/batch/`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: projectApiKey, batch })
  })
  t.equal(response.status, 200)
}

t.test('of every property the latest value stays, whatever the files, the runs and the live updates', async (t) => {
  t.comment(`seed ${SEED}`)
  const random = createRandom(SEED)
  const { folder, run, stack, counts } = await startImport(t)
  const { rows, expected } = buildExport(random, 900)
  const [late = [], early = []] = [shuffle(rows.slice(0, 300), random), rows.slice(300)]
  await writeFile(path.join(folder, 'a.jsonl.gz'), zlib.gzipSync(lines(early.slice(0, 300).map(asJson))))
  const columns = ['uuid', 'event', 'distinct_id', 'timestamp', 'properties', 'person_properties', 'team_id', 'created_at']
  await writeFile(path.join(folder, 'b.parquet'), Buffer.from(parquetWriteBuffer({
    columnData: columns.map((name) => ({ name, data: early.slice(300).map((row) => row[name]) }))
  })))

  const untaken = await run('posthog', folder)
  matchCaptured(t, untaken, { code: 0, out: /events +600\n/ })
  t.match(untaken.err, /Columns that the import ignores: .*person_properties \(read with --persons events\)/)
  t.same(await readPersons(stack), [])
  // One sets a property before the import does, the other one afterwards.
  const live = (id: string, value: string): object => ({ event: '$set', distinct_id: id, properties: { $set: { plan: value } } })
  await capture(stack, [live('user 0', 'live')])
  await waitFor(async () => (await readPersons(stack)).length === 1)

  const first = await run('posthog', folder, '--persons', 'events')
  matchCaptured(t, first, { code: 0, out: /complete +yes/ })
  t.notMatch(first.err, /person_properties/)
  await writeFile(path.join(folder, 'c.jsonl'), lines(late.map(asJson)))
  matchCaptured(t, await run('posthog', folder, '--persons', 'events'), { code: 0, out: /complete +yes/ })
  await capture(stack, [live('user 1', 'live later')])
  const withLive = expected.map(([id, properties]) => [id,
    id === 'user 0' ? { ...properties, plan: 'live' } : id === 'user 1' ? { ...properties, plan: 'live later' } : properties])
  const await1 = async (message: string): Promise<void> => {
    await waitFor(async () => isDeepStrictEqual(await readPersons(stack), withLive))
      .catch(async () => { t.same(await readPersons(stack), withLive, message) })
  }
  await await1('after files in any order')

  const stored = await counts()
  await rm(path.join(path.dirname(folder), 'state'), { recursive: true })
  matchCaptured(t, await run('posthog', path.join(folder, 'a.jsonl.gz'), '--persons', 'events'), { code: 0 })
  matchCaptured(t, await run('posthog', folder, '--persons', 'events'), { code: 0, out: /stored now +0\n/ })
  matchCaptured(t, await run('posthog', folder, '--persons', 'events'), { code: 0, out: /sent now +0\n/ })
  t.equal((await counts())['seen'], stored['seen'])
  await sleep(1000)
  await await1('after all was imported again')
})

t.test('persons end the same when the importer is killed', async (t) => {
  const { folder, run, stack } = await startImport(t)
  const { rows, expected } = buildExport(createRandom(SEED + 1), 20_000)
  await writeFile(path.join(folder, 'a.jsonl'), lines(rows.map(asJson)))
  const state = path.join(path.dirname(folder), 'state')
  const args = ['import', 'posthog', folder, '--persons', 'events', '--project', String(stack.project), '--state', state]
  for (const patienceMs of [0, 300, 900, 2000]) {
    const child = spawn(process.execPath, [path.join(import.meta.dirname, '../main.ts'), ...args], {
      env: { ...process.env, MILLRACE_URL: stack.url, MILLRACE_KEY: stack.personalApiKey }, stdio: 'ignore'
    })
    const ended = once(child, 'exit')
    await waitFor(async () => child.exitCode !== null || (await readFile(path.join(state, 'progress.json'), 'utf8').catch(() => '')) !== '')
    await sleep(patienceMs)
    child.kill('SIGKILL')
    await ended
  }
  matchCaptured(t, await run('posthog', folder, '--persons', 'events'), { code: 0, out: /complete +yes/ })
  await waitFor(async () => isDeepStrictEqual(await readPersons(stack), expected))
    .catch(async () => { t.same(await readPersons(stack), expected) })
})

t.test('columns that nothing reads are named, in the report too, and set as a column is $set', async (t) => {
  const { folder, run, stack } = await startImport(t)
  const many = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`column ${i} of many`, i]))
  const row = { event: 'e', distinct_id: 'ann', timestamp: START, properties: {} }
  await writeFile(path.join(folder, 'a.jsonl'), lines([
    { ...row, uuid: posthogRow(0)['uuid'], set: '{"plan":"pro"}', set_once: { first: 1 } }, { ...row, uuid: posthogRow(1)['uuid'], ...many }
  ]))
  const { code, err } = await run('posthog', folder, '--persons', 'events')
  t.equal(code, 0, err)
  const result = JSON.parse(await readFile(path.join(path.dirname(folder), 'state/proof.json'), 'utf8')) as ImportResult
  t.same(result.unread, Object.keys(many))
  const shown = async (url: string): Promise<any> => await (await fetch(`${stack.url}/api/projects/${stack.project}/imports/${url}`, {
    headers: { authorization: `Bearer ${stack.personalApiKey}` }
  })).json()
  const { results: [{ id }] } = await shown('')
  const notices = (await shown(`${id}/`)).result.notices.join('\n')
  for (const column of Object.keys(many)) {
    t.ok(err.includes(column), column)
    t.ok(notices.includes(column), column)
  }
  await waitFor(async () => isDeepStrictEqual(await readPersons(stack), [['ann', { plan: 'pro', first: 1 }]]))
})
