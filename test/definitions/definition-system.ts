import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { createTestApi, type TestApi } from '../../api/testing/create-test-api.ts'
import { rollUpDefinitions } from '../../pipeline/definitions/roll-up-definitions.ts'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { createTestClickHouse } from '../support/test-stores.ts'
import type { TestContext } from '../support/test-context.ts'
import type { Stack } from '../start-stack.ts'

/** A stored event; by default `order`, now, without properties. */
export interface StoredEvent {
  event?: string
  /** Epoch milliseconds. */
  timestamp?: number
  /** Packed: `eN`, `eS` event property, numeric or text; `p` of a person, `g` of a group; separated by NUL. */
  property_types?: string
}

/** The API and both stores, with the roll-up in the hands of the test: nothing happens between two of its rounds. */
export interface DefinitionSystem extends Pick<TestApi, 'call' | 'sql' | 'databaseUrl' | 'projectId'> {
  clickhouse: ClickHouse
  /** Stores events, which so arrive now. */
  arrive: (...events: StoredEvent[]) => Promise<void>
  /** One round over recent events, with its overlap; optionally by another connection. */
  rollUp: (sql?: Sql) => Promise<void>
  /** One round that reads everything, as once a day. */
  sweep: () => Promise<void>
  /** The event definition of that name, as the API lists it. */
  event: (name: string) => Promise<any>
  /** The property definition of that name, of events unless the query says otherwise. */
  property: (name: string, query?: string) => Promise<any>
  /** Sends PATCH or DELETE for the event definition of that name. */
  patchEvent: (name: string, changes: object) => Promise<void>
  deleteEvent: (name: string) => Promise<void>
  /** The same stores with a new project: the tests of a file share them, one after the other. */
  inNewProject: () => Promise<DefinitionSystem>
}

export async function createDefinitionSystem (t: TestContext): Promise<DefinitionSystem> {
  const [{ client: clickhouse }, api] = await Promise.all([createTestClickHouse(t), createTestApi(t)])
  return showProject(clickhouse, api)
}

/** What a test makes is far below. */
const LIMITS = { events: 2000, properties: 5000, pairs: 100_000, retentionDays: 90 }

function showProject (clickhouse: ClickHouse, api: TestApi): DefinitionSystem {
  const { sql, call, databaseUrl, projectId } = api
  const rollUp: DefinitionSystem['rollUp'] = async (by = sql) => {
    await rollUpDefinitions({ clickhouse, sql: by }, { minPauseMs: 0, limits: LIMITS })
  }
  const find = async (path: string, name: string): Promise<any> => {
    const { body } = await call('GET', path)
    return body.results.find((definition: { name: string }) => definition.name === name)
  }
  const event = async (name: string): Promise<any> => await find('~/event_definitions/', name)
  const succeed = async (method: 'PATCH' | 'DELETE', path: string, body?: object): Promise<void> => {
    const answer = await call(method, path, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
  }
  return {
    sql,
    call,
    databaseUrl,
    projectId,
    clickhouse,
    async arrive (...events) {
      await clickhouse.insert({
        table: 'events',
        format: 'JSONEachRow',
        values: events.map((stored) => ({
          project_id: projectId, uuid: crypto.randomUUID(), event: 'order', distinct_id: 'd', ...stored,
          timestamp: new Date(stored.timestamp ?? Date.now()).toISOString().slice(0, -1)
        }))
      })
    },
    rollUp,
    async sweep () {
      await sql`DELETE FROM roll_up_state WHERE source = 'daily sweep'`
      await rollUp()
    },
    event,
    property: async (name, query = '') => await find(`~/property_definitions/?${query}`, name),
    patchEvent: async (name, changes) => await succeed('PATCH', `~/event_definitions/${(await event(name)).id}/`, changes),
    deleteEvent: async (name) => await succeed('DELETE', `~/event_definitions/${(await event(name)).id}/`),
    inNewProject: async () => showProject(clickhouse, await api.inNewProject())
  }
}

const BATCH = 1000
const CONCURRENCY = 4
const compress = promisify(gzip)

/**
 * Makes events and sends them in compressed batches, every tenth batch twice, as SDKs do that did not hear the answer.
 *
 * @param make  Makes the next events; each has a uuid of its own.
 * @throws when a batch is not answered with 200.
 */
export async function sendBatches (stack: Stack, make: (count: number) => object[], count: number): Promise<void> {
  const underway = new Set<Promise<void>>()
  for (let sent = 0; sent < count; sent += BATCH) {
    const batch = make(Math.min(BATCH, count - sent))
    const body = await compress(JSON.stringify({ api_key: stack.projectApiKey, batch }), { level: 1 })
    const copies = sent % (10 * BATCH) === 0 ? [body, body] : [body]
    const work = Promise.all(copies.map(async (copy) => await send(stack, copy))).then(() => { underway.delete(work) })
    underway.add(work)
    if (underway.size >= CONCURRENCY) await Promise.race(underway)
  }
  await Promise.all(underway)
}

async function send ({ url }: Stack, body: Buffer): Promise<void> {
  const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' }
  const response = await fetch(`${url}/batch/`, { method: 'POST', body, headers })
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`)
}
