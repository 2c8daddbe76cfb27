import { type Stack } from '../test/start-stack.ts'

interface Counts {
  events: number
  volume: number
}

/**
 * What is stored now, in the table and in the view, of project 1: what came through the whole way. Questions that
 * insert by hand use other projects.
 */
export async function countEvents (stack: Stack): Promise<Counts> {
  const [counts] = await stack.select<Counts>(`
    SELECT toUInt32((SELECT count() FROM events WHERE project_id = 1)) AS events,
           toUInt32((SELECT sum(volume) FROM event_volumes_by_day WHERE project_id = 1)) AS volume`)
  return counts as Counts
}

/**
 * Waits until `expected` more events are stored than `before`.
 *
 * @throws when they are not within a minute, with the difference.
 */
export async function waitUntilVisible (stack: Stack, before: Counts, expected: number): Promise<void> {
  const deadline = Date.now() + 60_000
  let stored = 0
  while (Date.now() < deadline) {
    // An insert reaches the table a moment before its views.
    const now = await countEvents(stack)
    stored = Math.min(now.events - before.events, now.volume - before.volume)
    if (stored >= expected) return
    // Seldom enough that the question itself costs no CPU worth counting.
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`sent ${expected} events, but after a minute ${stored} are visible`)
}

/** @throws when an event is missing, stored twice, or counted differently by the view. A bench must not be wrong. */
export async function auditEvents (stack: Stack, before: Counts, expected: number): Promise<void> {
  const { events, volume } = await countEvents(stack)
  const [distinct] = await stack.select<{ total: number, unique: number }>(
    'SELECT toUInt32(count()) AS total, toUInt32(uniqExact(uuid)) AS unique FROM events WHERE project_id = 1')
  if (distinct === undefined || distinct.total !== distinct.unique) {
    throw new Error(`audit failed: ${distinct?.total} rows, ${distinct?.unique} uuids`)
  }
  if (events - before.events !== expected) {
    throw new Error(`audit failed: sent ${expected}, stored ${events - before.events}`)
  }
  if (volume - before.volume !== expected) {
    throw new Error(`audit failed: sent ${expected}, view counts ${volume - before.volume}`)
  }
}
