import { type EventRow } from '../normalise/event-row.ts'
import { type IsAnnounced } from '../normalise/derive-persons-updates.ts'
import { type EventPartitions } from '../publish/event-partitions.ts'
import { type EncodedUpdate, type PersonsPartitions } from '../publish/persons-partitions.ts'
import { type RequestContext } from './request-context.ts'
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
