/** Changes an event schema all the time while a system is broken, and looks whether every ingest process follows. */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { createRandom, pickOne } from '../support/random.ts'
import { waitFor } from '../support/wait-for.ts'
import { SDK_DISTINCT_ID } from './kinds/outage-faults.ts'
import { FAULT_PROJECT_KEY, type FaultSystem } from './system/fault-system.ts'

/** The part of a system needed to change its schemas and to see which one its processes have. */
export type SchemaSystem = Pick<FaultSystem, 'api' | 'ingest' | 'sql' | 'select'>

/** What came of the changes. */
export interface SchemaAudit {
  /** Changes that the API confirmed, and those that it did not: it was unavailable. */
  changes: number
  refused: number
  /** The active version in the end, and what each ingest process has. */
  active: number
  versions: { process: string, version: number | null }[]
  /** What is not as it should be, one line each. */
  problems: string[]
}

export interface SchemaChanges {
  /** Changes that the API confirmed so far. */
  readonly made: number
  stop: () => Promise<void>
  /** To be called when it is stopped, everything is healed and stored. */
  audit: () => Promise<SchemaAudit>
}

/**
 * One event of five of the load has it. Each meets every version: what the load knows of its events stays true.
 */
export const SCHEMA_EVENT = 'fault event 0'

/** Interval between two changes, in milliseconds; well within the rate limit of a key. */
const CHANGE_MS = 300

const REQUEST_TIMEOUT_MS = 5000

/** A process that missed a notification reads again after 15 s; a busy one takes longer. */
const FOLLOW_TIMEOUT_MS = 40_000

/** Share of the changes that go back to the version before. */
const BACK_SHARE = 0.25

/** The part of an API answer used here. */
interface Answer {
  id: number
  version: number
}

const MODES = ['observe', 'quarantine', 'reject'] as const

/**
 * Creates and activates a schema, waits until every ingest process has it, and then stores and activates another
 * version through the API about three times a second, in any mode, whatever else happens to the system.
 */
export async function startSchemaChanges (system: SchemaSystem): Promise<SchemaChanges> {
  const { api, sql } = system
  // Of its own: how many changes are made must not decide which fault comes next.
  const random = createRandom(1)
  const [user] = await sql<{ email: string }[]>`SELECT email FROM users ORDER BY id LIMIT 1`
  const { key } = await createPersonalKey(sql, {
    email: user!.email, label: 'schema changes', scopes: ['event_definition:write'], projectIds: null, expiresAt: null
  })
  const stopping = new AbortController()
  let made = 0
  let refused = 0
  let version = 1

  const call = async (method: 'POST' | 'PATCH', path: string, body: object): Promise<Answer> => {
    const response = await fetch(`http://127.0.0.1:${api.port}/api/projects/1/event_schemas/${path}`, {
      method, signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, body: JSON.stringify(body)
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} event_schemas/${path}: ${response.status} ${text}`)
    return JSON.parse(text) as Answer
  }

  const { id } = await call('POST', '', { event: SCHEMA_EVENT, schema: schemaOf(1), mode: 'observe', active_version: 1 })
  const isFollowed = async (): Promise<boolean> => (await askVersions(system)).every((asked) => asked.version === 1)
  await waitFor(isFollowed, { timeoutMs: FOLLOW_TIMEOUT_MS })

  /** The same again after a change that got no answer: it may have been made. */
  async function change (): Promise<void> {
    const next = version + 1
    const stored = await call('PATCH', String(id), { schema: schemaOf(next), mode: pickOne(MODES, random), active_version: next })
    version = stored.version
    made++
    if (random() > BACK_SHARE) return
    await call('PATCH', String(id), { active_version: version - 1, mode: pickOne(MODES, random) })
    made++
  }

  async function run (): Promise<void> {
    while (!stopping.signal.aborted) {
      const pause = delay(CHANGE_MS, undefined, { signal: stopping.signal }).catch(() => {})
      // The API and Postgres are among those that are broken.
      await change().catch(() => { refused++ })
      await pause
    }
  }

  const running = run()
  return {
    get made () { return made },
    async stop () {
      stopping.abort()
      await running
    },
    audit: async () => ({ changes: made, refused, ...await auditSchemaVersions(system) })
  }
}

/** Different for each version, and met by every event of the load. */
function schemaOf (version: number): object {
  return { required: ['index'], properties: { index: { type: 'integer', minimum: 0, maximum: 1_000_000 + version } } }
}

/**
 * Waits until every ingest process has the active version, and looks whether every event was checked by one.
 *
 * A process tells its version by an event: the row says which one it was checked by.
 */
export async function auditSchemaVersions (
  system: SchemaSystem, { timeoutMs = FOLLOW_TIMEOUT_MS } = {}
): Promise<Pick<SchemaAudit, 'active' | 'versions' | 'problems'>> {
  const [schema] = await system.sql<{ active: number, newest: number }[]>`
    SELECT active_version AS active, version AS newest FROM event_schemas WHERE project_id = 1 AND event = ${SCHEMA_EVENT}`
  const { active, newest } = schema!
  let versions: SchemaAudit['versions'] = []
  await waitFor(async () => {
    versions = await askVersions(system)
    return versions.every(({ version }) => version === active)
  }, { timeoutMs }).catch(() => {})
  const problems = versions.filter(({ version }) => version !== active)
    .map(({ process, version }) => `${process} has version ${version ?? 'none'} of the schema, but version ${active} is active`)
  const [rows] = await system.select<{ unchecked: number, unmet: number, unknown: number }>(`
    SELECT toUInt32(countIf(schema_version = 0)) AS unchecked, toUInt32(countIf(schema_version < 0)) AS unmet,
      toUInt32(countIf(schema_version > {newest:Int32})) AS unknown
    FROM events WHERE event = {event:String} AND NOT startsWith(distinct_id, {sdk:String})`, { newest, event: SCHEMA_EVENT, sdk: SDK_DISTINCT_ID })
  const { unchecked, unmet, unknown } = rows!
  if (unchecked > 0) problems.push(`${unchecked} events were stored without a check, although their schema was active`)
  if (unmet > 0) problems.push(`${unmet} events do not meet their schema, although each version takes them`)
  if (unknown > 0) problems.push(`${unknown} events were checked by a version that does not exist`)
  return { active, versions, problems }
}

/** The version by which each ingest process checks; null: it did not answer, or its event is not stored in time. */
async function askVersions (system: SchemaSystem): Promise<SchemaAudit['versions']> {
  return await Promise.all(system.ingest.map(async ({ name, port }) =>
    ({ process: name, version: await askVersion(system, port).catch(() => null) })))
}

async function askVersion ({ select }: SchemaSystem, port: number): Promise<number> {
  const uuid = randomUUID()
  // What the audit of events leaves out; with the property that all events of the load have.
  const event = { event: SCHEMA_EVENT, distinct_id: `${SDK_DISTINCT_ID}asks for a version`, uuid, properties: { index: 0 } }
  const response = await fetch(`http://127.0.0.1:${port}/batch/`, {
    method: 'POST', signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: FAULT_PROJECT_KEY, batch: [event] })
  })
  await response.arrayBuffer()
  if (response.status !== 200) throw new Error(`got ${response.status}`)
  const [row] = await waitFor(async () => {
    const rows = await select<{ version: number }>('SELECT schema_version AS version FROM events WHERE uuid = {uuid:UUID}', { uuid })
    return rows.length > 0 && rows
  }, { everyMs: 50 })
  return Math.abs(row!.version)
}
