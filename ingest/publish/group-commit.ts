import { HEADER } from '../../schema/streams.ts'
import { ROW_LAYOUT } from '../../schema/event-row.ts'
import { type EncodedFrame, FrameEncoder, isFull, needsNewMessage } from '../encode/frame-encoder.ts'
import { type EventRow } from '../normalise/event-row.ts'
import { type Publish } from './durable-publisher.ts'

export interface GroupCommitOptions {
  subject: string
  publish: Publish
  /** Gives each message its id. */
  nextMessageId: () => string
  /** Longest wait of an event for company while other messages are on their way, in milliseconds. */
  maxWaitMs: number
}

/** A message that still takes rows, or is on its way. */
interface Commit {
  requestId: string
  done: Promise<void>
  resolve: () => void
  reject: (error: unknown) => void
}

/**
 * Lets the events of concurrent requests travel in one message, and each request wait for just the messages that
 * carry its events.
 *
 * A message leaves when it is full; when nothing is on its way, as soon as a turn of the event loop brought no further
 * row, so that a lone request does not wait; otherwise after `maxWaitMs`, or when the last message on its way arrived.
 */
export class GroupCommit {
  readonly #options: GroupCommitOptions
  readonly #encoder = new FrameEncoder()
  #open: Commit | null = null
  #inFlight = 0
  #timer: NodeJS.Timeout | null = null
  #immediate: NodeJS.Immediate | null = null

  constructor (options: GroupCommitOptions) {
    this.#options = options
  }

  /** Adds a row; the promise resolves with the message that carries it. Equal promises, same message. */
  append (row: EventRow, requestId: string): Promise<void> {
    if (needsNewMessage(row)) this.#flush()
    const commit = this.#open ??= this.#begin(requestId)
    this.#encoder.append(row)
    if (isFull(this.#encoder)) this.#flush()
    return commit.done
  }

  /** Sends what is open now. */
  #flush (): void {
    const commit = this.#open
    if (commit === null) return
    this.#open = null
    this.#stopWaiting()
    this.#send(commit, this.#encoder.take())
  }

  #begin (requestId: string): Commit {
    if (this.#inFlight === 0) this.#flushSoon()
    else this.#timer = setTimeout(() => this.#flush(), this.#options.maxWaitMs)
    const { promise: done, resolve, reject } = Promise.withResolvers<void>()
    // Anyone who appended awaits it; a request that failed for another reason does not, and that is no error of its
    // own.
    done.catch(() => {})
    return { requestId, done, resolve, reject }
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
    const { subject, nextMessageId, publish } = this.#options
    this.#inFlight++
    publish({
      subject, id: nextMessageId(), payload: frame.payload, headers: frameHeaders(frame, commit.requestId)
    }).then(commit.resolve, commit.reject).finally(() => {
      this.#inFlight--
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

export function frameHeaders (frame: EncodedFrame, requestId: string): Record<string, string> {
  return {
    [HEADER.layout]: String(ROW_LAYOUT),
    [HEADER.rows]: String(frame.rows),
    [HEADER.received]: String(frame.receivedAt),
    ...(frame.oldestUuidAt === Infinity ? {} : { [HEADER.oldestUuid]: String(frame.oldestUuidAt) }),
    [HEADER.request]: requestId
  }
}
