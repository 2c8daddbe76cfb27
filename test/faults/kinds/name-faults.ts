import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { compareDelays, type Visibility, VISIBLE_P99_MS, watchBeside } from '../audit/watch-visibility.ts'
import type { FaultSystem } from '../system/fault-system.ts'
import { countStored } from './event-faults.ts'
import type { Fault } from './fault.ts'
import { SDK_DISTINCT_ID } from './outage-faults.ts'

/** Events of the flooded project begin so; most of them have no definition. */
export const FLOOD_EVENT = 'flood '

/** Four requests of 500 events, each with a name of its own: 136 KB compressed, 24 MB inflated, 2 million pairs. */
const REQUESTS = 4
const NAMES_PER_REQUEST = 500
const EVENTS = REQUESTS * NAMES_PER_REQUEST
const PROPERTIES = 1000

/** What definitions of a flooded project may take in Postgres, by day; 2 million pairs took 260 MB. */
const MAX_POSTGRES_BYTES = 50_000_000

const compress = promisify(gzip)

/** What anybody with a project key can do to the definitions. */
export const NAME_FAULTS: readonly Fault[] = [
  {
    name: 'many-names',
    what: `${EVENTS} event names with ${PROPERTIES} properties each in one project; another one stays visible within ${VISIBLE_P99_MS} ms, or at most twice as late as beside as many events of one name`,
    lastsMs: [20_000, 6000],
    async inject ({ system, note }) {
      const key = await createProject(system)
      const before = await definitionBytes(system)
      const distinctId = `${SDK_DISTINCT_ID}flooded ${Date.now()}`
      const flood = (name: string, id: string, names: number): Promise<Visibility> => {
        let storedAt: Date | undefined
        return watchBeside(system, name, async () => {
          for (let request = 0; request < REQUESTS; request++) {
            await sendFlood(system, { key, distinctId: id, request, names })
          }
        }, async () => {
          if (storedAt === undefined && await countStored(system, id) === EVENTS) storedAt = new Date()
          return storedAt !== undefined && await isRolledUp(system, storedAt)
        })
      }
      const plain = await flood('beside one name', `${distinctId} plain`, 1)
      const flooded = flood('beside many names', distinctId, EVENTS)
      return async () => {
        compareDelays(await flooded, plain, note)
        const bytes = await definitionBytes(system) - before
        note(`definitions take ${(bytes / 1e6).toFixed(1)} MB more`)
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
  { ingest }: FaultSystem,
  { key, distinctId, request, names }: { key: string, distinctId: string, request: number, names: number }
): Promise<void> {
  const properties = Object.fromEntries(Array.from({ length: PROPERTIES }, (_, index) => [`p${index}`, 1]))
  const batch = Array.from({ length: NAMES_PER_REQUEST }, (_, index) => ({
    event: `${FLOOD_EVENT}${(request * NAMES_PER_REQUEST + index) % names}`, distinct_id: distinctId, properties
  }))
  const { port } = ingest[request % ingest.length]!
  const response = await fetch(`http://127.0.0.1:${port}/batch/`, {
    method: 'POST', headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    body: await compress(JSON.stringify({ api_key: key, batch }))
  })
  if (response.status !== 200) throw new Error(`the flood was answered with ${response.status}`)
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
