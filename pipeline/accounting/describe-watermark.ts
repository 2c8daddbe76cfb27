/** How far the watermark is behind, and what it waits for, for people. */
import type { HealthPart } from '../../platform/health-and-readiness.ts'
import type { IngestEntries, IngestEntry } from './ingest-entries.ts'
import type { StreamPosition } from './watermark-proof.ts'

/** From this lag on, in milliseconds, it is said what the watermark waits for. */
const HELD_MS = 5000

/** A process that is silent for so long, in milliseconds, has most likely died or lost NATS. */
const STUCK_MS = 10_000

/** One that answers when it is asked is missed sooner. */
const UNANSWERED_MS = 3000

/** What the watermark waits for. */
export interface WatermarkState {
  /** Epoch milliseconds; null while nothing is known. */
  completeThrough: number | null
  lagMs: number
  /** Empty while it is not far behind. */
  heldBy: string
  /** Whether somebody must do something before it can go on. */
  isStuck: boolean
}

/** Facts known to the process that keeps the watermark. */
export interface WatermarkFacts {
  /** Epoch milliseconds; null while nothing is known. */
  completeThrough: number | null
  position: StreamPosition | null
  /** A store that does not do its part; null: none. Since when is epoch milliseconds. */
  outage: { what: string, since: number } | null
  entries: Pick<IngestEntries, 'oldest' | 'now'>
}

/** Tells how far the watermark is behind, and what it waits for: a store, an ingest process, or the stream. */
export function describeWatermark ({ completeThrough, position, outage, entries }: WatermarkFacts): WatermarkState {
  const now = entries.now()
  const lagMs = completeThrough === null ? 0 : Math.max(0, now - completeThrough)
  const say = (heldBy: string, isStuck = false): WatermarkState => ({ completeThrough, lagMs, heldBy, isStuck })
  if (completeThrough !== null && lagMs < HELD_MS) return say('')
  if (outage !== null) return say(`${outage.what} since ${toText(outage.since)}`)
  const { oldest } = entries
  if (oldest === null) return say('no ingest process has ever reached NATS')
  if (now - oldest.presence.publishedThrough >= HELD_MS) return { ...say(''), ...blameIngest(oldest, now) }
  const waiting = position === null ? 'messages' : `${position.last - position.first + 1} messages at most`
  return say(`stream EVENTS: ${waiting} wait to be stored`)
}

function blameIngest (entry: IngestEntry, now: number): Pick<WatermarkState, 'heldBy' | 'isStuck'> {
  const { key, presence: { host, folder, publishedThrough, spoolBytes, inFlight }, heardAt } = entry
  const who = `ingest ${key.slice('spool.'.length)} on ${host} (${folder})`
  const left = spoolBytes > 0 ? `, with ${spoolBytes} bytes in its spool` : ''
  const silentMs = now - heardAt
  const silent = `${who}: does not report since ${toText(heardAt)}${left}`
  if (silentMs > STUCK_MS) {
    return {
      heldBy: `${silent}; start it again with its folder, or if that is lost: DELETE /api/watermark/ingest/<id>`, isStuck: true
    }
  }
  const answers = entry.answeredAt > -Infinity
  if (answers && silentMs > UNANSWERED_MS) return { heldBy: silent, isStuck: false }
  if (spoolBytes > 0) return { heldBy: `${who}: ${spoolBytes} bytes wait in its spool`, isStuck: false }
  if (publishedThrough === 0) return { heldBy: `${who}: it has just started`, isStuck: false }
  if (inFlight > 0) return { heldBy: `${who}: ${inFlight} requests and messages are in flight`, isStuck: false }
  return { heldBy: silent, isStuck: false }
}

function toText (at: number): string {
  return new Date(at).toISOString()
}

/** The same as a part of health. */
export function watermarkPart ({ completeThrough, lagMs, heldBy, isStuck }: WatermarkState): HealthPart {
  return {
    name: 'watermark',
    healthy: !isStuck,
    lagMs: Math.round(lagMs),
    completeThrough: completeThrough === null ? null : new Date(completeThrough).toISOString(),
    heldBy
  }
}
