import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { personsPartition, type PersonUpdate } from '../../../schema/wire/persons-update.ts'
import { DEAD_LETTER_STREAM, PERSONS_PARTITIONS, personsSubject } from '../../../schema/wire/streams.ts'
import { waitFor } from '../../support/wait-for.ts'
import { compareDelays, type Visibility, VISIBLE_P99_MS, watchBeside } from '../audit/watch-visibility.ts'
import type { FaultSystem } from '../system/fault-system.ts'
import { countStored } from './event-faults.ts'
import type { Fault } from './fault.ts'
import { SDK_DISTINCT_ID } from './outage-faults.ts'

/** Its updates go to the partition of those of the load. */
const PROJECT = 1 + PERSONS_PARTITIONS

const REQUESTS = 16

/** Beside the deep value, in each of them. */
const TEXT_BYTES = 200_000

/** 64 MB for the pipeline, some 300 KB on the wire. */
const LARGE_UPDATES = 160
const LARGE_UPDATES_PER_REQUEST = 80
const LARGE_TEXT_BYTES = 400_000

/** Levels that the pipeline refuses in a person, and the engine in an event. */
const REFUSED_LEVELS = 205
const UNREADABLE_LEVELS = 1024

/** Updates as an earlier ingest would have published them; refused, they are more than the dead-letter stream holds. */
const OLD_UPDATES = 100

const compress = promisify(gzip)

/** What anybody with a project key can do to persons. */
export const DEEP_FAULTS: readonly Fault[] = [
  {
    name: 'deep-updates',
    what: `one project sends values nested too deep, and enough changes that are refused to fill the dead-letter stream; another one stays visible within ${VISIBLE_P99_MS} ms, or at most twice as late as beside plain texts`,
    lastsMs: [15_000, 5000],
    async inject ({ system, note }) {
      const key = await createProject(system)
      const distinctId = `${SDK_DISTINCT_ID}deep ${Date.now()}`
      const flood = async (name: string, id: string, levels: Levels) => await watchBeside(system, name, async () => {
        await publishOld(system, levels)
        for (let request = 0; request < REQUESTS; request++) {
          await sendDeep(system, { key, distinctId: id, request, ...levels })
        }
      }, async () => await countStored(system, id) === REQUESTS && await countPersons(system, id) === REQUESTS)
      const plain = await flood('beside plain texts', `${distinctId} plain`, PLAIN)
      const flooded = flood('beside deep updates', distinctId, DEEP)
      return async () => {
        compareDelays(await flooded, plain, note)
        const { state, config } = await (await jetstreamManager(system.connection)).streams.info(DEAD_LETTER_STREAM)
        const ratio = state.bytes / config.max_bytes
        note(`dead letters fill ${Math.round(ratio * 100)} %`)
        const unreadable = await countUnreadable(system, distinctId)
        if (unreadable > 0) throw new Error(`ClickHouse reads no property of ${unreadable} events`)
        if (ratio > 0.9) throw new Error(`one project filled ${Math.round(ratio * 100)} % of the dead-letter stream`)
      }
    }
  },
  {
    name: 'large-updates',
    what: `one project sets ${LARGE_UPDATES} times ${LARGE_TEXT_BYTES / 1000} KB, small when compressed; another one stays visible within ${VISIBLE_P99_MS} ms, or at most twice as late as beside plain texts`,
    lastsMs: [15_000, 5000],
    async inject ({ system, note }) {
      const key = await createProject(system)
      const distinctId = `${SDK_DISTINCT_ID}large ${Date.now()}`
      const flood = (name: string, id: string, sets: boolean): Promise<Visibility> => watchBeside(system, name,
        async () => await sendLarge(system, { key, distinctId: id, sets }),
        async () => await countStored(system, id) === LARGE_UPDATES)
      const plain = await flood('beside plain texts', `${distinctId} plain`, false)
      const flooded = flood('beside large updates', distinctId, true)
      return async () => compareDelays(await flooded, plain, note)
    }
  }
]

/** Levels of the values of a property of an event, and of one of a person. */
interface Levels { eventLevels: number, personLevels: number }

const PLAIN: Levels = { eventLevels: 1, personLevels: 1 }
const DEEP: Levels = { eventLevels: UNREADABLE_LEVELS, personLevels: REFUSED_LEVELS }

function nest (levels: number): unknown {
  return JSON.parse(`${'['.repeat(levels)}1${']'.repeat(levels)}`)
}

async function createProject ({ sql }: FaultSystem): Promise<string> {
  const key = `phc_deep_${randomUUID()}`
  await sql`INSERT INTO projects (id, name) VALUES (${PROJECT}, 'deep') ON CONFLICT DO NOTHING`
  await sql`INSERT INTO project_api_keys (api_key, project_id) VALUES (${key}, ${PROJECT})`
  return key
}

async function publishOld ({ connection }: FaultSystem, { personLevels }: Levels): Promise<void> {
  const set = { deep: nest(personLevels), text: 'x'.repeat(TEXT_BYTES) }
  for (let index = 0; index < OLD_UPDATES; index++) {
    const update: PersonUpdate = {
      kind: 'person', projectId: PROJECT, uuid: randomUUID(), timestamp: Date.now(), distinctId: `old ${index}`, set
    }
    const publish = async (): Promise<boolean> => await jetstream(connection).publish(
      personsSubject(personsPartition(update)), JSON.stringify([update])).then(() => true)
    // All together are more than the stream of persons holds.
    await waitFor(publish, { everyMs: 50 })
  }
}

async function sendDeep (
  { ingest }: FaultSystem, { key, distinctId, request, eventLevels, personLevels }:
  { key: string, distinctId: string, request: number } & Levels
): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${ingest[request % ingest.length]!.port}/capture/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      api_key: key, event: 'deep update', distinct_id: distinctId, timestamp: new Date().toISOString(),
      properties: {
        index: request, deep: nest(eventLevels),
        $set: { deep: nest(personLevels), text: 'x'.repeat(TEXT_BYTES), [`request ${request}`]: true }
      }
    })
  })
  await response.arrayBuffer()
  if (response.status !== 200) throw new Error(`a deep update was answered with ${response.status}`)
}

async function sendLarge (
  { ingest }: FaultSystem, { key, distinctId, sets }: { key: string, distinctId: string, sets: boolean }
): Promise<void> {
  const text = 'x'.repeat(LARGE_TEXT_BYTES)
  for (let sent = 0; sent < LARGE_UPDATES; sent += LARGE_UPDATES_PER_REQUEST) {
    const batch = Array.from({ length: LARGE_UPDATES_PER_REQUEST }, (_, index) => ({
      event: 'large update', distinct_id: distinctId, timestamp: new Date().toISOString(), properties: { index: sent + index, ...sets ? { $set: { text, [`request ${sent + index}`]: true } } : { text } }
    }))
    const response = await fetch(`http://127.0.0.1:${ingest[0]!.port}/batch/`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      body: await compress(JSON.stringify({ api_key: key, batch }))
    })
    await response.arrayBuffer()
    if (response.status !== 200) throw new Error(`large updates were answered with ${response.status}`)
  }
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
