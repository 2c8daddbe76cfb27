import { randomUUID } from 'node:crypto'
import { jetstream } from '@nats-io/jetstream'
import { readDeadLetterFill } from '../../../platform/dead-letters/read-dead-letters.ts'
import { personsPartition, type PersonUpdate } from '../../../schema/wire/persons-update.ts'
import { PERSONS_PARTITIONS, personsSubject } from '../../../schema/wire/streams.ts'
import { waitFor } from '../../support/wait-for.ts'
import { describeDelays, quantile, VISIBLE_P99_MS, watchVisibility } from '../audit/watch-visibility.ts'
import type { FaultSystem } from '../system/fault-system.ts'
import { countStored } from './event-faults.ts'
import type { Fault } from './fault.ts'
import { SDK_DISTINCT_ID } from './outage-faults.ts'

/** Its updates go to the partition of those of the load. */
const PROJECT = 1 + PERSONS_PARTITIONS

const REQUESTS = 16

/** Beside the deep value, in each of them. */
const TEXT_BYTES = 200_000

/** Levels that the pipeline refuses in a person, and the engine in an event. */
const REFUSED_LEVELS = 205
const UNREADABLE_LEVELS = 1024

/** Updates that an earlier version of ingest would have published: more than the dead-letter stream holds. */
const OLD_UPDATES = 100

/** What anybody with a project key can do to persons. */
export const DEEP_FAULTS: readonly Fault[] = [
  {
    name: 'deep-updates',
    what: `one project sends values nested too deep, and enough changes that are refused to fill the dead-letter stream; what another one sends is visible within ${VISIBLE_P99_MS} ms`,
    lastsMs: [15_000, 5000],
    async inject ({ system, note }) {
      const key = await createProject(system)
      const distinctId = `${SDK_DISTINCT_ID}deep ${Date.now()}`
      const stop = new AbortController()
      const watched = watchVisibility(system, {
        event: 'beside deep updates', distinctId: `${SDK_DISTINCT_ID}beside deep updates ${Date.now()}`, stop: stop.signal
      })
      // Awaited when the fault is healed; until then a failure must not end the run.
      watched.catch(() => {})
      try {
        await publishOld(system)
        for (let request = 0; request < REQUESTS; request++) await sendDeep(system, { key, distinctId, request })
      } catch (error) {
        stop.abort()
        throw error
      }
      return async () => {
        const isThere = async (): Promise<boolean> =>
          await countStored(system, distinctId) === REQUESTS && await countPersons(system, distinctId) === REQUESTS
        await waitFor(isThere, { timeoutMs: 60_000, everyMs: 200 }).finally(() => stop.abort())
        const { events, persons } = await watched
        const { ratio } = await readDeadLetterFill(system.connection)
        note([
          describeDelays('events', events), describeDelays('changes of a person', persons),
          `dead letters fill ${Math.round(ratio * 100)} %`
        ].join('; '))
        for (const [what, delays] of Object.entries({ events, persons })) {
          const p99 = quantile(delays, 0.99)
          if (p99 > VISIBLE_P99_MS) throw new Error(`${what} of another project became visible after ${Math.round(p99)} ms at p99`)
        }
        const unreadable = await countUnreadable(system, distinctId)
        if (unreadable > 0) throw new Error(`ClickHouse reads no property of ${unreadable} events`)
        if (ratio > 0.9) throw new Error(`one project filled ${Math.round(ratio * 100)} % of the dead-letter stream`)
      }
    }
  }
]

function nest (levels: number): unknown {
  return JSON.parse(`${'['.repeat(levels)}1${']'.repeat(levels)}`)
}

async function createProject ({ sql }: FaultSystem): Promise<string> {
  const key = `phc_deep_${randomUUID()}`
  await sql`INSERT INTO projects (id, name) VALUES (${PROJECT}, 'deep') ON CONFLICT DO NOTHING`
  await sql`INSERT INTO project_api_keys (api_key, project_id) VALUES (${key}, ${PROJECT})`
  return key
}

async function publishOld ({ connection }: FaultSystem): Promise<void> {
  const set = { deep: nest(REFUSED_LEVELS), text: 'x'.repeat(TEXT_BYTES) }
  for (let index = 0; index < OLD_UPDATES; index++) {
    const update: PersonUpdate = {
      kind: 'person', projectId: PROJECT, uuid: randomUUID(), timestamp: Date.now(), distinctId: `old ${index}`, set
    }
    const publish = async (): Promise<boolean> => await jetstream(connection).publish(
      personsSubject(personsPartition(update)), JSON.stringify([update])).then(() => true)
    // All together are more than the stream of persons holds.
    await waitFor(publish, { timeoutMs: 60_000, everyMs: 50 })
  }
}

async function sendDeep (
  { ingest }: FaultSystem, { key, distinctId, request }: { key: string, distinctId: string, request: number }
): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${ingest[request % ingest.length]!.port}/capture/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      api_key: key, event: 'deep update', distinct_id: distinctId, timestamp: new Date().toISOString(),
      properties: {
        index: request, deep: nest(UNREADABLE_LEVELS),
        $set: { deep: nest(REFUSED_LEVELS), text: 'x'.repeat(TEXT_BYTES), [`request ${request}`]: true }
      }
    })
  })
  await response.arrayBuffer()
  if (response.status !== 200) throw new Error(`a deep update was answered with ${response.status}`)
}

/** How many of the requests the person shows. */
async function countPersons ({ sql }: FaultSystem, distinctId: string): Promise<number> {
  const [row] = await sql<{ requests: number }[]>`
    SELECT (SELECT count(*)::integer FROM jsonb_object_keys(properties) AS name WHERE starts_with(name, 'request ')) AS requests
    FROM persons JOIN person_distinct_ids ON person_id = persons.id WHERE distinct_id = ${distinctId}`
  return row?.requests ?? 0
}

async function countUnreadable ({ select }: FaultSystem, distinctId: string): Promise<number> {
  const [row] = await select<{ rows: number }>(
    "SELECT toUInt32(countIf(NOT JSONHas(properties, 'index'))) AS rows FROM events WHERE distinct_id = {distinctId:String}", { distinctId })
  return row?.rows ?? 0
}
