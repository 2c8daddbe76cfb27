import { EVENT_CLASSES, eventsSubject, type EventClass } from '../../schema/streams.ts'
import { type EventRow } from '../normalise/event-row.ts'
import { type RequestContext } from '../capture/request-context.ts'
import { GroupCommit, type GroupCommitOptions } from './group-commit.ts'
import { hashText } from './hash-text.ts'

/**
 * Live events older than this take the historical lanes. So an insert of live events touches three monthly
 * partitions at most, whatever dates clients send.
 */
const HISTORICAL_AFTER_MS = 30 * 86_400_000

/** Chooses the class and lane of a row. */
export function routeRow (
  row: EventRow, context: RequestContext, lanes: number
): { eventClass: EventClass, lane: number } {
  const isOld = row.timestamp < context.receivedAt - HISTORICAL_AFTER_MS
  return {
    eventClass: context.historical || isOld ? 'historical' : 'live',
    lane: lanes === 1 ? 0 : hashText(row.projectId, row.distinctId) % lanes
  }
}

/** The open messages of all lanes of both classes. */
export interface EventLanes {
  /** Adds a row to the open message of its lane; the promise settles with that message. */
  append (row: EventRow, context: RequestContext): Promise<void>
}

export function createEventLanes (lanes: number, options: Omit<GroupCommitOptions, 'subject'>): EventLanes {
  const commits = Object.fromEntries(EVENT_CLASSES.map((eventClass) =>
    [eventClass, Array.from({ length: lanes }, (_, lane) =>
      new GroupCommit({ ...options, subject: eventsSubject(eventClass, lane) }))])) as Record<EventClass, GroupCommit[]>

  return {
    append (row, context) {
      const { eventClass, lane } = routeRow(row, context, lanes)
      return (commits[eventClass][lane] as GroupCommit).append(row, context.requestId)
    }
  }
}
