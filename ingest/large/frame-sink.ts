import { type EventClass } from '../../schema/streams.ts'
import { FrameEncoder } from '../encode/frame-encoder.ts'
import { type EventRow } from '../normalise/event-row.ts'
import { routeRow } from '../publish/event-partitions.ts'
import { isFull, needsNewMessage } from '../publish/message-limits.ts'
import { type EncodedUpdate } from '../publish/persons-partitions.ts'
import { type RequestContext } from '../capture/request-context.ts'
import { type EventSink } from '../capture/take-event.ts'
import { type RoutedFrame } from './large-body-job.ts'

/** Collects the events of one large body into frames of their own, which are published when the body proved good. */
export class FrameSink implements EventSink {
  readonly frames: RoutedFrame[] = []
  readonly updates: EncodedUpdate[] = []
  readonly #partitions: number
  readonly #open = new Map<string, { eventClass: EventClass, partition: number, encoder: FrameEncoder }>()
  readonly #announced = new Set<string>()

  constructor (partitions: number) {
    this.#partitions = partitions
  }

  appendRow (row: EventRow, context: RequestContext): void {
    const { eventClass, partition } = routeRow(row, context, this.#partitions)
    const key = `${eventClass}.${partition}`
    let open = this.#open.get(key)
    if (open === undefined) {
      open = { eventClass, partition, encoder: new FrameEncoder() }
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
