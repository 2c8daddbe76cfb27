import { type EventClass } from '../../schema/streams.ts'
import { FrameEncoder } from '../encode/frame-encoder.ts'
import { type EventRow } from '../normalise/event-row.ts'
import { routeRow } from '../publish/event-lanes.ts'
import { isFull, needsNewMessage } from '../publish/message-limits.ts'
import { type EncodedUpdate } from '../publish/people-lanes.ts'
import { type RequestContext } from '../capture/request-context.ts'
import { type EventSink } from '../capture/take-event.ts'
import { type RoutedFrame } from './large-body-job.ts'

/** Collects the events of one large body into frames of their own, which are published when the body proved good. */
export class FrameSink implements EventSink {
  readonly frames: RoutedFrame[] = []
  readonly updates: EncodedUpdate[] = []
  readonly #lanes: number
  readonly #open = new Map<string, { eventClass: EventClass, lane: number, encoder: FrameEncoder }>()
  readonly #announced = new Set<string>()

  constructor (lanes: number) {
    this.#lanes = lanes
  }

  appendRow (row: EventRow, context: RequestContext): void {
    const { eventClass, lane } = routeRow(row, context, this.#lanes)
    const key = `${eventClass}.${lane}`
    let open = this.#open.get(key)
    if (open === undefined) {
      open = { eventClass, lane, encoder: new FrameEncoder() }
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

  #take ({ eventClass, lane, encoder }: { eventClass: EventClass, lane: number, encoder: FrameEncoder }): void {
    this.frames.push({ ...encoder.take(), eventClass, lane })
  }
}
