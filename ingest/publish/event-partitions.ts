import { EVENT_CLASSES, type EventClass, eventsSubject } from '../../schema/streams.ts'
import { type EventRow } from '../normalise/event-row.ts'
import { type RequestContext } from '../capture/envelope.ts'
import { type EncodedFrame } from '../encode/frame-encoder.ts'
import { frameHeaders, GroupCommit, type GroupCommitOptions } from './group-commit.ts'
import { type Publish } from './durable-publisher.ts'

/**
 * Live events older than this take the historical partitions. So an insert of live events touches three monthly
 * partitions at most, whatever dates clients send.
 */
const HISTORICAL_AFTER_MS = 30 * 86_400_000

/** The open messages of all partitions of both classes. */
export interface EventPartitions {
  /** Adds a row to the open message of its partition; the promise resolves with that message. */
  append (row: EventRow, context: RequestContext): Promise<void>
}

export type PublishFrames = (
  frames: readonly (EncodedFrame & { eventClass: EventClass, partition: number })[], requestId: string
) => Promise<void>

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

/** FNV-1a over UTF-16 units: spreads ids evenly over partitions; the same for every process and version. */
function hashText (seed: number, text: string): number {
  let hash = 0x811c9dc5 ^ seed
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  // FNV leaves the low bits weak for short texts.
  hash ^= hash >>> 15
  return Math.imul(hash, 0x2c1b3c6d) >>> 0
}

/** Frames of large bodies in flight at a time, so that messages of small requests do not wait behind megabytes. */
const MAX_FRAMES_IN_FLIGHT = 4

/** Publishes finished frames, some at a time for all requests together; resolves when all are durable. */
export function createPublishFrames (options: { publish: Publish, nextMessageId: () => string }): PublishFrames {
  const { publish, nextMessageId } = options
  const waiting: (() => void)[] = []
  let free = MAX_FRAMES_IN_FLIGHT

  return async function publishFrames (frames, requestId) {
    await Promise.all(frames.map(async (frame) => {
      if (free > 0) free--
      else await new Promise<void>((resolve) => waiting.push(resolve))
      try {
        const subject = eventsSubject(frame.eventClass, frame.partition)
        await publish({ subject, id: nextMessageId(), headers: frameHeaders(frame, requestId), payload: frame.payload })
      } finally {
        const next = waiting.shift()
        if (next === undefined) free++
        else next()
      }
    }))
  }
}
