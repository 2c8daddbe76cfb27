import type { Metrics } from '../../platform/metrics.ts'
import { DROP_REASONS, type DropReason } from '../event.ts'
import type { TakenBody } from './take-parsed-body.ts'

/** Plain counters of capture; the metrics read them when they are scraped. */
export interface IngestCounts {
  /** Events in the bodies of authenticated requests: received = accepted + dropped. */
  received: number
  accepted: number
  dropped: Record<DropReason, number>
  /** Events answered with 200 and dead-lettered because of their schema. */
  quarantined: number
  /** Events of visitors without cookies that were stored under one id for all of them. */
  unknownVisitors: number
  /** Answers by path, then by status. */
  answers: Map<string, Map<number, number>>
  /** Body bytes on the wire. */
  bytes: number
}

/** Statuses that capture answers with; their counters are there before the first answer. */
const CAPTURE_STATUSES = [200, 204, 400, 401, 403, 413, 429, 500, 503] as const

/** @param paths  The paths of capture. */
export function createIngestCounts (metrics: Metrics, paths: readonly string[]): IngestCounts {
  const counts: IngestCounts = {
    received: 0,
    accepted: 0,
    dropped: Object.fromEntries(DROP_REASONS.map((reason) => [reason, 0])) as Record<DropReason, number>,
    quarantined: 0,
    unknownVisitors: 0,
    answers: new Map(paths.map((path) => [path, new Map(CAPTURE_STATUSES.map((status) => [status, 0]))])),
    bytes: 0
  }
  metrics.counterFrom('events_received_total', 'Events received in authenticated requests.', () => counts.received)
  metrics.counterFrom('events_accepted_total', 'Events accepted and encoded for publishing.', () => counts.accepted)
  metrics.countersFrom('events_dropped_total', 'Events dropped from accepted requests, by reason.',
    ['reason'], () => Object.entries(counts.dropped).map(([reason, count]) => [{ reason }, count] as const))
  metrics.counterFrom('events_quarantined_total', 'Events answered with 200 and dead-lettered because of their schema.',
    () => counts.quarantined)
  metrics.counterFrom('cookieless_unknown_visitors_total',
    'Events of indistinguishable visitors without cookies, stored under $posthog_cookieless.',
    () => counts.unknownVisitors)
  metrics.countersFrom('requests_total', 'Capture requests, by path and status.', ['path', 'status'], () =>
    [...counts.answers].flatMap(([path, statuses]) =>
      [...statuses].map(([status, count]) => [{ path, status: String(status) }, count] as const)))
  metrics.counterFrom('body_bytes_total', 'Bytes of request bodies before decompression.', () => counts.bytes)
  return counts
}

/** @param path  Of the route, so that there are few. */
export function countAnswer ({ answers }: IngestCounts, path: string, status: number): void {
  let statuses = answers.get(path)
  if (statuses === undefined) answers.set(path, statuses = new Map<number, number>())
  statuses.set(status, (statuses.get(status) ?? 0) + 1)
}

/**
 * Counts what became of the events of a body.
 *
 * @returns how many were taken.
 */
export function countTaken (counts: IngestCounts, { received, dropped, quarantined, warnings }: TakenBody): number {
  let taken = received
  for (const reason of DROP_REASONS) {
    const events = dropped[reason]
    if (events === undefined) continue
    counts.dropped[reason] += events
    taken -= events
  }
  counts.received += received
  counts.accepted += taken
  counts.quarantined += quarantined
  counts.unknownVisitors += warnings?.counts.find(({ reason }) => reason === 'visitor_unknown')?.count ?? 0
  return taken
}
