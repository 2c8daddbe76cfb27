import { EVENT_CLASSES, eventsSubject, type EventClass } from '../../schema/streams.ts'
import { type EventRow } from '../normalise/event-row.ts'
import { type RequestContext } from '../capture/request-context.ts'
import { GroupCommit, type GroupCommitOptions } from './group-commit.ts'
import { hashText } from './hash-text.ts'

/**
 * Live events older than this take the historical partitions. So an insert of live events touches three monthly
 * partitions at most, whatever dates clients send.
 */
const HISTORICAL_AFTER_MS = 30 * 86_400_000

/** Chooses the class and partition of a row. */
export function routeRow (
  row: EventRow, context: RequestContext, partitions: number
): { eventClass: EventClass, partition: number } {
  const isOld = row.timestamp < context.receivedAt - HISTORICAL_AFTER_MS
  return {
    eventClass: context.historical || isOld ? 'historical' : 'live',
    partition: partitions === 1 ? 0 : hashText(row.projectId, row.distinctId) % partitions
  }
}

/** The open messages of all partitions of both classes. */
export interface EventPartitions {
  /** Adds a row to the open message of its partition; the promise resolves with that message. */
  append (row: EventRow, context: RequestContext): Promise<void>
}

export function createEventPartitions (partitions: number, options: Omit<GroupCommitOptions, 'subject'>): EventPartitions {
  const commits = Object.fromEntries(EVENT_CLASSES.map((eventClass) =>
    [eventClass, Array.from({ length: partitions }, (_, partition) =>
      new GroupCommit({ ...options, subject: eventsSubject(eventClass, partition) }))])
  ) as Record<EventClass, GroupCommit[]>

  return {
    append (row, context) {
      const { eventClass, partition } = routeRow(row, context, partitions)
      return (commits[eventClass][partition] as GroupCommit).append(row, context.requestId)
    }
  }
}
