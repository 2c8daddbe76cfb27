import { type FingerprintKey } from '../../schema/frame-message.ts'
import { type EventClass } from '../../schema/streams.ts'
import { type EventRow } from '../normalise/event-row.ts'
import { type IsAnnounced } from '../normalise/persons-updates.ts'
import { type EventPartitions, routeRow } from '../publish/event-partitions.ts'
import { type EncodedUpdate, type PersonsPartitions } from '../publish/persons-partitions.ts'
import { FrameEncoder, isFull, needsNewMessage } from '../encode/frame-encoder.ts'
import { type RoutedFrame } from '../large/large-body-pool.ts'
import { type RequestContext } from './envelope.ts'
import { type EventSink } from './take-event.ts'

/** Puts the events of one request into the open messages, and remembers which messages those are. */
export class RequestSink implements EventSink {
  readonly #partitions: EventPartitions
  readonly #persons: PersonsPartitions
  readonly isAnnounced: IsAnnounced
  readonly #messages: Promise<void>[] = []

  constructor (partitions: EventPartitions, persons: PersonsPartitions) {
    this.#partitions = partitions
    this.#persons = persons
    this.isAnnounced = persons.isAnnounced
  }

  appendRow (row: EventRow, context: RequestContext): void {
    this.#await(this.#partitions.append(row, context))
  }

  appendUpdate (update: EncodedUpdate): void {
    this.#await(this.#persons.append(update))
  }

  /** Settles when every message that carries something of the request is durable. */
  settled (): Promise<unknown> {
    const [first] = this.#messages
    return first !== undefined && this.#messages.length === 1 ? first : Promise.all(this.#messages)
  }

  #await (message: Promise<void>): void {
    // Neighbours mostly share a message; a repeated entry would only be awaited twice.
    if (this.#messages.at(-1) !== message) this.#messages.push(message)
  }
}

/** Collects the events of one large body into frames of their own, which are published when the body proved good. */
export class FrameSink implements EventSink {
  readonly frames: RoutedFrame[] = []
  readonly updates: EncodedUpdate[] = []
  readonly #partitions: number
  readonly #fingerprintKey: FingerprintKey | null
  readonly #open = new Map<string, { eventClass: EventClass, partition: number, encoder: FrameEncoder }>()
  readonly #announced = new Set<string>()

  constructor (partitions: number, fingerprintKey: FingerprintKey | null) {
    this.#partitions = partitions
    this.#fingerprintKey = fingerprintKey
  }

  appendRow (row: EventRow, context: RequestContext): void {
    const { eventClass, partition } = routeRow(row, context, this.#partitions)
    const key = `${eventClass}.${partition}`
    let open = this.#open.get(key)
    if (open === undefined) {
      open = { eventClass, partition, encoder: new FrameEncoder(() => this.#fingerprintKey) }
      this.#open.set(key, open)
    }
    if (needsNewMessage(row) && open.encoder.rows > 0) this.#take(open)
    open.encoder.append(row)
    if (isFull(open.encoder)) this.#take(open)
  }

  appendUpdate (update: EncodedUpdate): void {
    this.updates.push(update)
  }

  /** Once per body is enough: the main thread knows more, but is far away. */
  isAnnounced = (projectId: number, groupType: string): boolean => {
    const key = `${projectId}:${groupType}`
    if (this.#announced.has(key)) return true
    this.#announced.add(key)
    return false
  }

  /** Closes the open frames. */
  finish (): void {
    for (const open of this.#open.values()) {
      if (open.encoder.rows > 0) this.#take(open)
    }
  }

  #take (
    { eventClass, partition, encoder }: { eventClass: EventClass, partition: number, encoder: FrameEncoder }
  ): void {
    this.frames.push({ ...encoder.take(), eventClass, partition })
  }
}
