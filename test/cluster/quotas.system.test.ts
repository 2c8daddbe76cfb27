/** What a quota promises when several ingest processes take the events of a project: docs/change/quotas.md. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { setQuota } from '../../api/projects/project-quota.ts'
import type { ProjectQuota } from '../../schema/project-quotas.ts'
import { waitFor } from '../support/wait-for.ts'
import { startClusterSystem } from './cluster-system.ts'

const NONE: ProjectQuota = { eventsPerSecond: null, burst: null, eventsPerMonth: null, beyond: 'reject', sampleRate: 0.1 }

const system = await startClusterSystem(t, { natsNodes: 1, partitions: 1, ingest: 2, pipeline: 1 })
const { sql } = system
const [one, other] = system.ingest.map(({ port }) => port) as [number, number]

/** Makes a project with a key; both are known to a process when it has read the tables again. */
async function addKey (project: number): Promise<string> {
  const key = `phc_${randomUUID()}`
  await sql`INSERT INTO projects (id, name) VALUES (${project}, 'with a quota') ON CONFLICT DO NOTHING`
  await sql`INSERT INTO project_api_keys (api_key, project_id, kind) VALUES (${key}, ${project}, 'project')`
  return key
}

/** Sends a batch; returns the status, and the code of a refusal. */
async function send (port: number, key: string, events: number): Promise<string> {
  const batch = Array.from({ length: events }, () => ({ event: 'scroll', uuid: randomUUID(), distinct_id: randomUUID() }))
  const response = await fetch(`http://127.0.0.1:${port}/batch/`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: key, batch })
  })
  const { code } = await response.json() as { code?: string }
  return response.ok ? '200' : `${response.status} ${code}`
}

async function sendSome (port: number, key: string, batches: number, events: number): Promise<string[]> {
  const answers = []
  for (let sent = 0; sent < batches; sent++) answers.push(await send(port, key, events))
  return answers
}

/** Resolves when both processes know the quotas and the usage that Postgres has: they are read together with keys. */
async function readAgain (): Promise<void> {
  const key = await addKey(99)
  for (const port of [one, other]) await waitFor(async () => await send(port, key, 1) === '200')
}

async function stored (project: number): Promise<number> {
  const [row] = await system.select<{ events: string }>('SELECT count() AS events FROM events WHERE project_id = {project: UInt32}', { project })
  return Number(row!.events)
}

/** Waits until the pipeline has measured all that was sent until now: no process counts any of it a second time. */
async function waitUntilMeasured (project: number, events: number): Promise<void> {
  const sentAt = new Date()
  await waitFor(async () => {
    const [usage] = await sql<{ events: string }[]>`
      SELECT events FROM project_usage WHERE project_id = ${project} AND counted_through > ${sentAt}`
    return Number(usage?.events) === events
  }, { everyMs: 500 })
}

t.test('the second is of each process: two take twice the burst', async (t) => {
  const key = await addKey(2)
  await setQuota(sql, 2, { ...NONE, eventsPerSecond: 1, burst: 100 })
  await readAgain()

  t.same(await sendSome(one, key, 4, 60), ['200', '200', '429 throttled', '429 throttled'])
  t.same(await sendSome(other, key, 4, 60), ['200', '200', '429 throttled', '429 throttled'])

  await waitFor(async () => await stored(2) === 240)
})

t.test('the month is of all: what another process took counts once it is measured, and what it took since comes on top', async (t) => {
  const key = await addKey(3)
  await setQuota(sql, 3, { ...NONE, eventsPerMonth: 1000 })
  await readAgain()

  t.same(await sendSome(one, key, 6, 100), Array(6).fill('200'))
  await waitUntilMeasured(3, 600)
  await readAgain()
  t.same(await sendSome(other, key, 6, 100), [...Array(4).fill('200'), '429 quota_exceeded', '429 quota_exceeded'],
    'the other process knows what the first one took')
  t.same(await sendSome(one, key, 6, 100), [...Array(4).fill('200'), '429 quota_exceeded', '429 quota_exceeded'],
    'the first does not know what the other took since, and takes no more than its own share of the quota')

  await waitUntilMeasured(3, 1400)
  t.equal(await stored(3), 1400)
  await setQuota(sql, 3, { ...NONE, eventsPerMonth: 1500 })
  await readAgain()
  t.same(await sendSome(one, key, 2, 100), ['200', '429 quota_exceeded'], 'a quota that is raised holds at once')
  await waitUntilMeasured(3, 1500)
  await readAgain()
  for (const port of [one, other]) t.equal(await send(port, key, 1), '429 quota_exceeded')
  t.same(system.surprises, [], system.surprises.join('; '))
})
