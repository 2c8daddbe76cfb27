import { randomUUID } from 'node:crypto'
import t from 'tap'
import { runCli } from '../../cli/run-cli.ts'
import { createStackProject, waitUntilKnown } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'

const stack = await createStackProject(t)
const { project } = stack
await waitUntilKnown(stack)

const BATCHES = 100
const BATCH_SIZE = 100
const TOTAL = BATCHES * BATCH_SIZE
const POISON = randomUUID()

async function sendBatch (batch: number): Promise<void> {
  const response = await fetch(`${stack.url}/batch/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      api_key: stack.projectApiKey,
      batch: Array.from({ length: BATCH_SIZE }, (_, index) => batch === 37 && index === 61
        ? { event: 'poison', distinct_id: 'u', uuid: POISON, properties: { colour: 'green' } }
        : { event: 'healthy', distinct_id: `u${index}`, uuid: randomUUID(), properties: { index } })
    })
  })
  await response.arrayBuffer()
  if (response.status !== 200) throw new Error(`batch ${batch} got ${response.status}`)
}

interface Counts {
  rows: number
  unique: number
  volume: number
}

async function count (): Promise<Counts> {
  const [counts] = await stack.select<Counts>(
    `SELECT toUInt32(count()) AS rows, toUInt32(uniqExact(uuid)) AS unique,
       toUInt32((SELECT sum(volume) FROM event_volumes WHERE project_id = {project:UInt32})) AS volume
     FROM events WHERE project_id = {project:UInt32}`, { project })
  return counts!
}

/** Each event once, in the table and in its view, which ClickHouse fills a moment after the table. */
async function allStored (events: number): Promise<Counts> {
  return await waitFor(async () => {
    const counts = await count()
    return Object.values(counts).every((number) => number >= events) && counts
  }, { everyMs: 50 })
}

interface Answer {
  status: number
  body: Record<string, unknown> & { results?: Record<string, unknown>[] }
}

async function callApi (method: string, path: string, body?: object): Promise<Answer> {
  const response = await fetch(`${stack.url}/api/projects/${project}/dead_letters${path}`, {
    method,
    headers: { authorization: `Bearer ${stack.personalApiKey}`, ...body && { 'content-type': 'application/json' } },
    ...body && { body: JSON.stringify(body) }
  })
  return { status: response.status, body: await response.json() as Answer['body'] }
}

const dropConstraint = async (): Promise<unknown> =>
  await stack.clickhouse.command({ query: 'ALTER TABLE events DROP CONSTRAINT IF EXISTS healthy' })

async function replayByCli (): Promise<{ code: number, printed: unknown }> {
  let printed = ''
  const code = await runCli(['dead-letters', 'replay', '--reason', 'refused', '--project', String(project), '--json'], {
    env: { MILLRACE_URL: stack.url, MILLRACE_KEY: stack.personalApiKey },
    stdout: { write: (text) => { printed += text } },
    stderr: { write: () => {} },
    now: Date.now
  })
  return { code, printed: JSON.parse(printed) }
}

t.test('of 10,000 events 9,999 arrive, and the one that ClickHouse refuses is a dead letter', async (t) => {
  await stack.clickhouse.command({ query: "ALTER TABLE events ADD CONSTRAINT healthy CHECK event != 'poison'" })
  t.teardown(dropConstraint)
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: BATCHES }, async (_, batch) => await sendBatch(batch)))
  t.same(await allStored(TOTAL - 1), { rows: TOTAL - 1, unique: TOTAL - 1, volume: TOTAL - 1 })
  const tookMs = performance.now() - startedAt

  t.comment(`all healthy events are stored ${Math.round(tookMs)} ms after the first was sent`)
  const listed = await waitFor(async () => {
    const answer = await callApi('GET', '/')
    return answer.body.count !== 0 && answer
  })
  t.match(listed.body, {
    count: 1,
    results: [{ stage: 'writer', reason: 'refused', error_code: '469', error: /Constraint `healthy`/, event: 'poison', uuid: POISON }]
  })
  const opened = await callApi('GET', `/${String(listed.body.results?.[0]?.id)}`)
  t.match(opened.body, { content: [{ event: 'poison', properties: /"colour":"green"/ }] })
  t.ok(String(opened.body.body_base64).length > 100, 'its bytes are there')
})

t.test('replayed once the cause is repaired, by command and by HTTP, it is stored once', async (t) => {
  await dropConstraint()

  t.same(await replayByCli(), { code: 0, printed: { matched: 1, replayed: 1 } })
  t.same(await allStored(TOTAL), { rows: TOTAL, unique: TOTAL, volume: TOTAL })
  t.same(await replayByCli(), { code: 0, printed: { matched: 0, replayed: 0 } })
  t.match(await callApi('POST', '/replay', { reason: 'refused' }), { status: 200, body: { matched: 0, replayed: 0 } })

  // The SDK sends it again: it was stored by the replay.
  await sendBatch(37)
  t.same(await allStored(TOTAL + 99), { rows: TOTAL + 99, unique: TOTAL + 99, volume: TOTAL + 99 })
})
