/** How soon what a project sends is visible while another one misbehaves. */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { waitFor } from '../../support/wait-for.ts'
import { SDK_DISTINCT_ID } from '../kinds/outage-faults.ts'
import { FAULT_PROJECT_KEY, type FaultSystem } from '../system/fault-system.ts'

const SEND_PAUSE_MS = 50
const LOOK_PAUSE_MS = 25

/** How late something may become visible at the 99th percentile, in milliseconds. */
export const VISIBLE_P99_MS = 2000

/**
 * How many times as late another project may be as beside a plain flood of the same size, from which only the capacity
 * of the machine isolates it. Beside large changes of persons, on two cores, that was 2.1 to 2.8 s for both, and 4.3 to
 * 6.7 s where the pipeline never rests between them.
 */
const MAX_RATIO = 2

/** How long a flood may take until all of it is stored. */
const FLOOD_MS = 110_000

/** Milliseconds from sending to the first look that found it, in order of size. */
export interface Visibility {
  events: number[]
  persons: number[]
}

/** An event that was sent, and not seen yet. */
interface Sent { index: number, uuid: string, at: number }

/**
 * Sends events that change a person, one after the other, until `stop` fires, and looks for each in `events` and in the
 * person until it is there. The load's own project.
 */
async function watchVisibility (
  system: FaultSystem, { event, distinctId, stop }: { event: string, distinctId: string, stop: AbortSignal }
): Promise<Visibility> {
  const waiting: { events: Sent[], persons: Sent[] } = { events: [], persons: [] }
  const seen: Visibility = { events: [], persons: [] }
  const sending = (async () => {
    for (let index = 0; !stop.aborted; index++) {
      const sent = { index, uuid: randomUUID(), at: performance.now() }
      if (await send(system, { event, distinctId, sent })) {
        waiting.events.push(sent)
        waiting.persons.push(sent)
      }
      await delay(SEND_PAUSE_MS)
    }
    return 'done'
  })()
  const see = (what: keyof Visibility, isVisible: (sent: Sent) => boolean): void => {
    const now = performance.now()
    for (const { at } of waiting[what].filter(isVisible)) seen[what].push(now - at)
    waiting[what] = waiting[what].filter((sent) => !isVisible(sent))
  }
  let state = ''
  while (state !== 'done' || waiting.events.length + waiting.persons.length > 0) {
    const [rows, [person]] = await Promise.all([
      system.select<{ id: string }>(
        'SELECT toString(uuid) AS id FROM events WHERE project_id = 1 AND distinct_id = {distinctId:String}', { distinctId }),
      system.sql<{ index: number }[]>`SELECT (properties->>'index')::integer AS index FROM persons
        JOIN person_distinct_ids ON person_id = persons.id WHERE distinct_id = ${distinctId}`
    ])
    const stored = new Set(rows.map(({ id }) => id))
    see('events', ({ uuid }) => stored.has(uuid))
    see('persons', ({ index }) => index <= (person?.index ?? -1))
    state = await Promise.race([sending, delay(LOOK_PAUSE_MS, '')])
  }
  seen.events.sort((one, other) => one - other)
  seen.persons.sort((one, other) => one - other)
  return seen
}

/** Watches another project beside a flood, until all of that is there. */
export function watchBeside (
  system: FaultSystem, event: string, flood: () => Promise<void>, isThere: () => Promise<boolean>
): Promise<Visibility> {
  const stop = new AbortController()
  const distinctId = `${SDK_DISTINCT_ID}${event} ${Date.now()}`
  const watched = watchVisibility(system, { event, distinctId, stop: stop.signal })
  const flooded = flood().then(async () => await waitFor(isThere, { timeoutMs: FLOOD_MS, everyMs: 200 }))
    .finally(() => stop.abort())
  const both = Promise.all([watched, flooded]).then(([visibility]) => visibility)
  // Awaited when the fault is healed; until then a failure must not end the run.
  both.catch(() => {})
  return both
}

/** @throws when another project was visible late, and later than beside a plain flood. */
export function compareDelays (seen: Visibility, plain: Visibility, note: (text: string) => void): void {
  const kinds = [['events', 'events'], ['persons', 'changes of a person']] as const
  note(kinds.map(([kind, name]) => `${seen[kind].length} ${name} after ${quantile(seen[kind], 0.5)} ms, p99 ` +
    `${quantile(seen[kind], 0.99)} ms (beside a plain flood: p99 ${quantile(plain[kind], 0.99)} ms)`).join('; '))
  for (const [kind, name] of kinds) {
    const [late, plainly] = [quantile(seen[kind], 0.99), quantile(plain[kind], 0.99)]
    if (late > Math.max(VISIBLE_P99_MS, MAX_RATIO * plainly)) {
      throw new Error(`${name} of another project: p99 ${late} ms, beside a plain flood ${plainly} ms`)
    }
  }
}

/** In whole milliseconds; of no values, Infinity. */
function quantile (sorted: readonly number[], share: number): number {
  return Math.round(sorted[Math.ceil(sorted.length * share) - 1] ?? Infinity)
}

async function send (
  { ingest }: FaultSystem, { event, distinctId, sent }: { event: string, distinctId: string, sent: Sent }
): Promise<boolean> {
  const { index, uuid } = sent
  const response = await fetch(`http://127.0.0.1:${ingest[index % ingest.length]!.port}/batch/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      api_key: FAULT_PROJECT_KEY,
      batch: [{
        event, distinct_id: distinctId, uuid, timestamp: new Date().toISOString(),
        properties: { index, $set: { index } }
      }]
    })
  }).catch(() => null)
  await response?.arrayBuffer()
  return response?.status === 200
}
