import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { personsPartition, type PersonUpdate } from '../../../schema/wire/persons-update.ts'
import { DEAD_LETTER_STREAM, PERSONS_PARTITIONS, personsSubject } from '../../../schema/wire/streams.ts'
import { waitFor } from '../../support/wait-for.ts'
import { describeDelays, quantile, type Visibility, VISIBLE_P99_MS, watchVisibility } from '../audit/watch-visibility.ts'
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

/**
 * How late another project may be beside it at the 99th percentile, in milliseconds: 2.1 to 2.8 s were measured on two
 * cores, about as much as beside the same texts as plain properties; 4.3 to 6.7 s where the pipeline never rests.
 */
const BESIDE_LARGE_P99_MS = 4000

/** Levels that the pipeline refuses in a person, and the engine in an event. */
const REFUSED_LEVELS = 205
const UNREADABLE_LEVELS = 1024

/** Updates that an earlier version of ingest would have published: more than the dead-letter stream holds. */
const OLD_UPDATES = 100

/** So long another project is watched before the flood, in milliseconds. */
const CALM_MS = 4000

const compress = promisify(gzip)

/** What anybody with a project key can do to persons. */
export const DEEP_FAULTS: readonly Fault[] = [
  {
    name: 'deep-updates',
    what: `one project sends values nested too deep, and enough changes that are refused to fill the dead-letter stream; what another one sends is visible within ${VISIBLE_P99_MS} ms`,
    lastsMs: [15_000, 5000],
    async inject ({ system, note }) {
      const key = await createProject(system)
      const distinctId = `${SDK_DISTINCT_ID}deep ${Date.now()}`
      const endWatch = await watchAnotherProject(system, 'beside deep updates', async () => {
        await publishOld(system)
        for (let request = 0; request < REQUESTS; request++) await sendDeep(system, { key, distinctId, request })
      })
      return async () => {
        const isThere = async (): Promise<boolean> =>
          await countStored(system, distinctId) === REQUESTS && await countPersons(system, distinctId) === REQUESTS
        const failure = await endWatch(isThere, note)
        if (failure !== null) throw failure
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
    what: `one project sets ${LARGE_UPDATES} times ${LARGE_TEXT_BYTES / 1000} KB, small when compressed; what another one sends is visible within ${BESIDE_LARGE_P99_MS} ms`,
    lastsMs: [15_000, 5000],
    async inject ({ system, note }) {
      const key = await createProject(system)
      const distinctId = `${SDK_DISTINCT_ID}large ${Date.now()}`
      const endWatch = await watchAnotherProject(system, 'beside large updates', async () => await sendLarge(system, { key, distinctId }), BESIDE_LARGE_P99_MS)
      return async () => {
        const failure = await endWatch(async () => await countStored(system, distinctId) === LARGE_UPDATES, note)
        if (failure !== null) throw failure
      }
    }
  }
]

/**
 * Watches how soon events and changes of a person of another project are visible: for a while before the flood, and
 * until all of it is there.
 *
 * @returns ends the watch: waits until `isThere`, notes the delays, and gives the error when they were too long. Where
 *   they are long already before the flood, twice as long is allowed.
 */
async function watchAnotherProject (
  system: FaultSystem, event: string, flood: () => Promise<void>, maxP99Ms = VISIBLE_P99_MS
): Promise<(isThere: () => Promise<boolean>, note: (text: string) => void) => Promise<Error | null>> {
  const stop = new AbortController()
  const watch = async (signal: AbortSignal): Promise<Visibility> =>
    await watchVisibility(system, { event, distinctId: `${SDK_DISTINCT_ID}${event} ${Date.now()}`, stop: signal })
  const calm = await watch(AbortSignal.timeout(CALM_MS))
  const watched = watch(stop.signal)
  // Awaited when the fault is healed; until then a failure must not end the run.
  watched.catch(() => {})
  try {
    await flood()
  } catch (error) {
    stop.abort()
    throw error
  }
  return async (isThere, note) => {
    await waitFor(isThere, { everyMs: 200 }).finally(() => stop.abort())
    const seen = await watched
    const kinds = [['events', 'events'], ['persons', 'changes of a person']] as const
    note(kinds.map(([kind, name]) => `${describeDelays(name, seen[kind])} (before: p99 ${Math.round(quantile(calm[kind], 0.99))} ms)`).join('; '))
    for (const [kind, name] of kinds) {
      const p99 = quantile(seen[kind], 0.99)
      if (p99 > Math.max(maxP99Ms, 2 * quantile(calm[kind], 0.99))) return new Error(`${name} of another project became visible after ${Math.round(p99)} ms at p99`)
    }
    return null
  }
}

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
    await waitFor(publish, { everyMs: 50 })
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

async function sendLarge (
  { ingest }: FaultSystem, { key, distinctId }: { key: string, distinctId: string }
): Promise<void> {
  const text = 'x'.repeat(LARGE_TEXT_BYTES)
  for (let sent = 0; sent < LARGE_UPDATES; sent += LARGE_UPDATES_PER_REQUEST) {
    const batch = Array.from({ length: LARGE_UPDATES_PER_REQUEST }, (_, index) => ({
      event: 'large update', distinct_id: distinctId, timestamp: new Date().toISOString(), properties: { index: sent + index, $set: { text, [`request ${sent + index}`]: true } }
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
