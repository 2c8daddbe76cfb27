/** Traces, by uuid, of events that are not in `events`: the rows of the table `event_traces`. */
import { createHash } from 'node:crypto'

/** The table; `docs/send/what-happens-to-an-event.md` says how many rows are kept at most. */
export const TRACES_TABLE = 'event_traces'

/**
 * What happened to the event:
 *
 * - `duplicate`: it came once more, and was not stored again.
 * - `dropped`: it was answered with 200 and not stored.
 * - `deleted`: it was deleted with its person.
 */
export type TraceKind = 'duplicate' | 'dropped' | 'deleted'

/**
 * A trace. All of it but `reason` is the key, so that a trace inserted twice is one; every field follows from the
 * message or the request that it is about.
 */
export interface EventTrace {
  projectId: number
  /** Canonical text. */
  uuid: string
  kind: TraceKind
  /** When the event was received again or dropped, or its deletion was asked for, epoch milliseconds. */
  at: number
  /** Id of the ingest process; empty when unknown. */
  process: string
  /** Of a dropped event: why. */
  reason: string
  /** Of a duplicate: partition, stream sequence of its message, and its row there. */
  partition: string
  sequence: number
  row: number
  /** `hashDistinctId` of a dropped event's; empty without one. */
  distinctIdHash: string
}

/** What stands for a distinct id in a trace: 16 hexadecimal digits, from which nobody reads the id. */
export function hashDistinctId (distinctId: string): string {
  return createHash('sha256').update(distinctId).digest('hex').slice(0, 16)
}

/** A row of `TRACES_TABLE` as JSONEachRow takes it. */
export function toTraceRow (trace: EventTrace): Record<string, unknown> {
  return {
    project_id: trace.projectId,
    uuid: trace.uuid,
    kind: trace.kind,
    at: new Date(trace.at).toISOString().slice(0, 23).replace('T', ' '),
    process: trace.process,
    reason: trace.reason,
    partition: trace.partition,
    sequence: trace.sequence,
    row: trace.row,
    distinct_id_hash: trace.distinctIdHash
  }
}
