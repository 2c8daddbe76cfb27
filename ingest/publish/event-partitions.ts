import { createSemaphore } from '../../platform/semaphore.ts'
import type { FingerprintKey } from '../../schema/wire/frame-message.ts'
import { EVENT_CLASSES, type EventClass, eventsSubject, HEADER } from '../../schema/wire/streams.ts'
import { ROW_LAYOUT } from '../../schema/wire/event-row.ts'
import type { EventRow, RequestContext } from '../event.ts'
import { type EncodedFrame, FrameEncoder, isFull, needsNewMessage } from '../frames/frame-encoder.ts'
import type { Publish } from './acknowledged-publisher.ts'
import { alsoReceived, type InFlight, type PublishedThrough } from '../registry/published-through.ts'

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

export function createEventPartitions (partitions: number, options: Omit<GroupCommitOptions, 'subject' | 'eventClass'>): EventPartitions {
  const commits = Object.fromEntries(EVENT_CLASSES.map((eventClass) =>
    [eventClass, Array.from({ length: partitions }, (_, partition) =>
      new GroupCommit({ ...options, eventClass, subject: eventsSubject(eventClass, partition) }))])
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
  // FNV leaves the low bits weak for short strings.
  hash ^= hash >>> 15
  return Math.imul(hash, 0x2c1b3c6d) >>> 0
}

/** Frames of large bodies in flight at a time, so that messages of small requests do not wait behind megabytes. */
const MAX_FRAMES_IN_FLIGHT = 4

/** Publishes finished frames, some at a time for all requests together; resolves when all are durable. */
export function createPublishFrames (options: { publish: Publish, nextMessageId: () => string }): PublishFrames {
  const { publish, nextMessageId } = options
  const { run } = createSemaphore({ limit: MAX_FRAMES_IN_FLIGHT })

  return async function publishFrames (frames, requestId) {
    await Promise.all(frames.map(async (frame) => await run(async () => {
      const subject = eventsSubject(frame.eventClass, frame.partition)
      await publish({ subject, id: nextMessageId(), headers: frameHeaders(frame, requestId), payload: frame.payload })
    })))
  }
}

interface GroupCommitOptions {
  subject: string
  eventClass: EventClass
  publish: Publish
  nextMessageId: () => string
  /** The secret of fingerprints, null until it is known. */
  fingerprintKey: () => FingerprintKey | null
  /** Longest time that a message stays open while others are in flight, in milliseconds. */
  maxWaitMs: number
  /** Tracks each message from its first row until it is durable. */
  publishedThrough: PublishedThrough
}

/** A message that is open for rows, or in flight. */
interface Commit {
  requestId: string
  inFlight: InFlight
  done: Promise<void>
  resolve: () => void
  reject: (error: unknown) => void
}

/**
 * Lets the events of concurrent requests travel in one message, and each request wait for just the messages that
 * carry its events.
 *
 * A message leaves when it is full; when nothing is in flight, as soon as a turn of the event loop brought no further
 * row, so that a lone request does not wait; otherwise after `maxWaitMs`, or when the last message in flight was
 * acknowledged.
 */
class GroupCommit {
  readonly #options: GroupCommitOptions
  readonly #encoder: FrameEncoder
  #open: Commit | null = null
  #inFlight = 0
  #timer: NodeJS.Timeout | null = null
  #immediate: NodeJS.Immediate | null = null

  constructor (options: GroupCommitOptions) {
    this.#options = options
    this.#encoder = new FrameEncoder(options.fingerprintKey, options.eventClass)
  }

  /** Adds a row; the promise resolves with the message that carries it. Equal promises, same message. */
  append (row: EventRow, requestId: string): Promise<void> {
    if (needsNewMessage(row)) this.#flush()
    const commit = this.#open ??= this.#begin(requestId, row.receivedAt)
    alsoReceived(commit.inFlight, row.receivedAt)
    this.#encoder.append(row)
    if (isFull(this.#encoder)) this.#flush()
    return commit.done
  }

  /** Sends the open messages. */
  #flush (): void {
    const commit = this.#open
    if (commit === null) return
    this.#open = null
    this.#stopWaiting()
    this.#send(commit, this.#encoder.take())
  }

  #begin (requestId: string, receivedAt: number): Commit {
    if (this.#inFlight === 0) this.#flushSoon()
    else this.#timer = setTimeout(() => this.#flush(), this.#options.maxWaitMs)
    const { promise: done, resolve, reject } = Promise.withResolvers<void>()
    // Anyone who appended awaits it; a request that failed for another reason does not, and that is no error of its
    // own.
    done.catch(() => {})
    return { requestId, inFlight: this.#options.publishedThrough.begin(receivedAt), done, resolve, reject }
  }

  /** Sends when a turn of the event loop brought no further row: the burst of requests is over. */
  #flushSoon (): void {
    const rows = this.#encoder.rows
    this.#immediate ??= setImmediate(() => {
      this.#immediate = null
      if (this.#encoder.rows > rows) this.#flushSoon()
      else this.#flush()
    })
  }

  #send (commit: Commit, frame: EncodedFrame): void {
    const { subject, nextMessageId, publish, publishedThrough } = this.#options
    this.#inFlight++
    publish({
      subject, id: nextMessageId(), payload: frame.payload, headers: frameHeaders(frame, commit.requestId)
    }).then(commit.resolve, commit.reject).finally(() => {
      this.#inFlight--
      publishedThrough.end(commit.inFlight)
      if (this.#inFlight === 0 && this.#open !== null) this.#flushSoon()
    })
  }

  #stopWaiting (): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    if (this.#immediate !== null) clearImmediate(this.#immediate)
    this.#timer = null
    this.#immediate = null
  }
}

/** The headers of a message with a frame. */
export function frameHeaders (frame: EncodedFrame, requestId: string): Record<string, string> {
  return {
    [HEADER.layout]: String(ROW_LAYOUT),
    [HEADER.rows]: String(frame.rows),
    [HEADER.received]: String(frame.receivedAt),
    ...(frame.keyId === '' ? {} : { [HEADER.fingerprintKey]: frame.keyId }),
    ...(frame.oldestUuidAt === Infinity ? {} : { [HEADER.oldestUuid]: String(frame.oldestUuidAt) }),
    [HEADER.accepted]: frame.accepted,
    [HEADER.request]: requestId
  }
}
