import type { RequestContext, Taken } from '../event.ts'
import type { Publishing } from '../publish/open-publishing.ts'
import type { EventResult, EventSink } from './take-parsed-body.ts'

/** What became of one event of a body in a dialect. */
export interface CapturedEvent extends EventResult {
  /** Its message could not be kept, unlike those of others of the same body. */
  isLost: boolean
}

/** Puts the events of a small body into the open messages, and remembers which messages those are. */
export class RequestSink implements EventSink {
  readonly #to: Pick<Publishing, 'partitions' | 'persons' | 'quarantine'>
  readonly #messages: Promise<void>[] = []

  constructor (to: Pick<Publishing, 'partitions' | 'persons' | 'quarantine'>) {
    this.#to = to
  }

  add (event: Taken, context: RequestContext): void {
    const { partitions, persons, quarantine } = this.#to
    if (event.kind === 'stored') this.#await(partitions.append(event.row, context))
    else this.#await(quarantine.publish(quarantine.buildLetter(event, context)))
    for (const update of event.updates) this.#await(persons.append(update))
  }

  /** Resolves when every message that carries something of the request is durable. */
  durable (): Promise<unknown> {
    const [first] = this.#messages
    return first !== undefined && this.#messages.length === 1 ? first : Promise.all(this.#messages)
  }

  get messages (): number {
    return this.#messages.length
  }

  /**
   * Waits for all messages, and tells which events were in one that could not be kept.
   *
   * @throws what the first of them failed with, when none was kept.
   */
  async keptEvents (results: readonly EventResult[]): Promise<CapturedEvent[]> {
    const outcomes = await Promise.allSettled(this.#messages)
    const failure = outcomes.find(({ status }) => status === 'rejected')
    if (failure?.status === 'rejected' && outcomes.every(({ status }) => status === 'rejected')) throw failure.reason
    let from = 0
    return results.map((result) => {
      // An event may share the last message of the one before it; sent again for nothing, it is a duplicate.
      const own = outcomes.slice(Math.max(from - 1, 0), result.messages)
      from = result.messages
      return { ...result, isLost: result.drop === null && own.some(({ status }) => status === 'rejected') }
    })
  }

  #await (message: Promise<void>): void {
    // Neighbours mostly share a message; a repeated entry would only be awaited twice.
    if (this.#messages.at(-1) !== message) this.#messages.push(message)
  }
}
