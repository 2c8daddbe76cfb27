/** How soon what a project sends is visible while another one misbehaves. */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { FAULT_PROJECT_KEY, type FaultSystem } from '../system/fault-system.ts'

const SEND_PAUSE_MS = 50
const LOOK_PAUSE_MS = 25

/** How late something may become visible at the 99th percentile, in milliseconds. */
export const VISIBLE_P99_MS = 2000

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
export async function watchVisibility (
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

/** For people: `212 events after 61 ms, p99 340 ms`. */
export function describeDelays (what: string, delays: readonly number[]): string {
  return `${delays.length} ${what} after ${Math.round(quantile(delays, 0.5))} ms, p99 ${Math.round(quantile(delays, 0.99))} ms`
}

export function quantile (sorted: readonly number[], share: number): number {
  return sorted[Math.ceil(sorted.length * share) - 1] ?? Infinity
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
