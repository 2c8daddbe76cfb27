import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { waitFor } from '../../support/wait-for.ts'
import { FAULT_PROJECT_KEY, type FaultSystem } from '../system/fault-system.ts'
import { countStored } from './event-faults.ts'
import type { Fault } from './fault.ts'
import { SDK_DISTINCT_ID } from './outage-faults.ts'

/** Events of the flooded project begin so; most of them have no definition. */
export const FLOOD_EVENT = 'flood '

/** Four requests of 500 events, each with a name of its own: 136 KB compressed, 24 MB inflated, 2 million pairs. */
const REQUESTS = 4
const NAMES_PER_REQUEST = 500
const PROPERTIES = 1000

const PROBE_PAUSE_MS = 50
const LOOK_PAUSE_MS = 25

/** How late events of another project may become visible while the flood runs, in milliseconds. */
const VISIBLE_P99_MS = 2000

/** So long they are looked at before, in milliseconds: where that takes long already, twice as long is allowed. */
const CALM_MS = 5000

/** What definitions of a flooded project may take in Postgres, by day; 2 million pairs took 260 MB. */
const MAX_POSTGRES_BYTES = 50_000_000

const compress = promisify(gzip)

/** What anybody with a project key can do to the definitions. */
export const NAME_FAULTS: readonly Fault[] = [
  {
    name: 'many-names',
    what: `${REQUESTS * NAMES_PER_REQUEST} event names with ${PROPERTIES} properties each in one project; events of another one stay visible within ${VISIBLE_P99_MS} ms`,
    lastsMs: [20_000, 6000],
    async inject ({ system, note }) {
      const key = await createProject(system)
      const before = await definitionBytes(system)
      const distinctId = `${SDK_DISTINCT_ID}flooded ${Date.now()}`
      const stop = new AbortController()
      const probes = probeVisibility(system, `${SDK_DISTINCT_ID}beside names ${Date.now()}`, stop.signal)
      // Awaited when the fault is healed; until then a failure must not end the run.
      probes.done.catch(() => {})
      await delay(CALM_MS)
      const calm = probes.delays.splice(0).sort(bySize)
      for (let request = 0; request < REQUESTS; request++) await sendFlood(system, { key, distinctId, request })
      return async () => {
        const sent = REQUESTS * NAMES_PER_REQUEST
        const isStored = async (): Promise<boolean> => await countStored(system, distinctId) === sent
        await waitFor(isStored, { timeoutMs: 110_000, everyMs: 200 })
        const storedAt = new Date()
        await waitFor(async () => await isRolledUp(system, storedAt), { timeoutMs: 110_000, everyMs: 200 })
        stop.abort()
        await probes.done
        const delays = probes.delays.sort(bySize)
        const bytes = await definitionBytes(system) - before
        const p99 = quantile(delays, 0.99)
        note(`${delays.length} events of another project visible after ${quantile(delays, 0.5)} ms, p99 ${p99} ms ` +
          `(before: ${quantile(calm, 0.5)} ms, p99 ${quantile(calm, 0.99)} ms), definitions take ${(bytes / 1e6).toFixed(1)} MB more`)
        if (p99 > Math.max(VISIBLE_P99_MS, 2 * quantile(calm, 0.99))) throw new Error(`events of another project became visible after ${p99} ms at p99`)
        if (bytes > MAX_POSTGRES_BYTES) throw new Error(`definitions of the flooded project take ${bytes} bytes in Postgres`)
      }
    }
  }
]

async function createProject ({ sql }: FaultSystem): Promise<string> {
  const key = `phc_flood_${randomUUID()}`
  await sql`WITH project AS (INSERT INTO projects (name) VALUES ('flooded') RETURNING id)
    INSERT INTO project_api_keys (api_key, project_id) SELECT ${key}, id FROM project`
  return key
}

async function sendFlood (
  { ingest }: FaultSystem, { key, distinctId, request }: { key: string, distinctId: string, request: number }
): Promise<void> {
  const properties = Object.fromEntries(Array.from({ length: PROPERTIES }, (_, index) => [`p${index}`, 1]))
  const batch = Array.from({ length: NAMES_PER_REQUEST }, (_, index) => ({
    event: `${FLOOD_EVENT}${request * NAMES_PER_REQUEST + index}`, distinct_id: distinctId, properties
  }))
  const { port } = ingest[request % ingest.length]!
  const response = await fetch(`http://127.0.0.1:${port}/batch/`, {
    method: 'POST', headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    body: await compress(JSON.stringify({ api_key: key, batch }))
  })
  if (response.status !== 200) throw new Error(`the flood was answered with ${response.status}`)
}

/** Sends events to the other project until stopped, and notes after how many milliseconds each was visible. */
function probeVisibility (
  system: FaultSystem, distinctId: string, stop: AbortSignal
): { delays: number[], done: Promise<void> } {
  const delays: number[] = []
  return { delays, done: probe(system, { distinctId, stop, delays }) }
}

async function probe (
  system: FaultSystem, { distinctId, stop, delays }: { distinctId: string, stop: AbortSignal, delays: number[] }
): Promise<void> {
  const sent = new Map<string, number>()
  const sending = (async () => {
    for (let index = 0; !stop.aborted; index++) {
      const uuid = randomUUID()
      const at = performance.now()
      if (await sendProbe(system, { uuid, distinctId, index })) sent.set(uuid, at)
      await delay(PROBE_PAUSE_MS)
    }
  })()
  const seen = new Set<string>()
  while (!stop.aborted || seen.size < sent.size) {
    const rows = await system.select<{ id: string }>(
      'SELECT toString(uuid) AS id FROM events WHERE project_id = 1 AND distinct_id = {distinctId:String}', { distinctId })
    for (const { id } of rows) {
      const at = sent.get(id)
      if (at === undefined || seen.has(id)) continue
      seen.add(id)
      delays.push(performance.now() - at)
    }
    await delay(LOOK_PAUSE_MS)
  }
  await sending
}

function bySize (one: number, other: number): number {
  return one - other
}

/** In whole milliseconds; of no values, Infinity. */
function quantile (sorted: readonly number[], share: number): number {
  return Math.round(sorted[Math.ceil(sorted.length * share) - 1] ?? Infinity)
}

async function sendProbe (
  { ingest }: FaultSystem, { uuid, distinctId, index }: { uuid: string, distinctId: string, index: number }
): Promise<boolean> {
  const response = await fetch(`http://127.0.0.1:${ingest[index % ingest.length]!.port}/batch/`, {
    method: 'POST', headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      api_key: FAULT_PROJECT_KEY,
      batch: [{ event: 'beside many names', distinct_id: distinctId, uuid, properties: { index }, timestamp: new Date().toISOString() }]
    })
  })
  await response.arrayBuffer()
  return response.status === 200
}

/** Whether the definitions of every project have what was stored before; one with many names was read once. */
async function isRolledUp ({ sql }: FaultSystem, since: Date): Promise<boolean> {
  const [row] = await sql`SELECT FROM roll_up_state WHERE source = 'recent changes' AND read_up_to > ${since}
    AND NOT EXISTS (SELECT FROM roll_up_behind WHERE rests_until IS NULL)`
  return row !== undefined
}

async function definitionBytes ({ sql }: FaultSystem): Promise<number> {
  const [row] = await sql<{ bytes: number }[]>`SELECT (pg_total_relation_size('event_definitions')
    + pg_total_relation_size('property_definitions') + pg_total_relation_size('event_properties'))::float8 AS bytes`
  return row?.bytes ?? 0
}
