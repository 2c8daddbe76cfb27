import type { ArrivedEvent, Watch } from '../../schema/wire/live-feed.ts'
import type { Outcome, RequestContext } from '../event.ts'
import { describeArrival, describeSent } from './describe-arrival.ts'

/** What watches saw between two reports of a process, or in one large body; crosses threads. */
export type Arrivals = { watchId: string, matched: number, events: ArrivedEvent[] }[]

/** Events described between two reports, of all watches together, as long as these are all: some 2,000 a second. */
const MAX_EVENTS = 200

/**
 * Events described between two reports when more arrive: some 250 a second, more than anybody reads. It bounds what
 * watching costs when ingest has the most to do.
 */
const SAMPLED_EVENTS = 25

/** Characters of events as sent that are shown between two reports. */
const MAX_SENT_TOGETHER = 524_288

/** What one watch saw since the last report. */
interface Seen {
  watch: Watch
  /** All events that it asked for. */
  matched: number
  events: ArrivedEvent[]
  /** Events that it asked for between two reports lately. */
  expected: number
  /** How many are described at most until the next report. */
  room: number
  /** Every so many are described, so that a sample is drawn from the whole time between two reports. */
  stride: number
  /** The next one to be described, counted by `matched`; Infinity: none until the next report. */
  next: number
}

interface ProjectWatches {
  seen: Seen[]
  /** Some ask for a name or a distinct id, which are known when an event was taken. */
  hasFilter: boolean
}

/**
 * Collects events for those who watch them: all are counted, some are described. Which ones is decided before they are
 * looked at, so that an event that is only counted costs next to nothing.
 */
export class ArrivalCollector {
  #seen: Seen[] = []
  #byProject = new Map<number, ProjectWatches>()
  #characters = 0

  get watches (): Watch[] {
    return this.#seen.map(({ watch }) => watch)
  }

  /** Which events to collect from now on. */
  setWatches (watches: readonly Watch[]): void {
    const known = new Map(this.#seen.map((seen) => [seen.watch.id, seen]))
    this.#seen = watches.map((watch) => known.get(watch.id) ?? begin(watch))
    this.#byProject.clear()
    for (const seen of this.#seen) {
      const { project, event, distinctId } = seen.watch
      const ofProject = this.#byProject.get(project) ?? { seen: [], hasFilter: false }
      ofProject.seen.push(seen)
      ofProject.hasFilter ||= event !== '' || distinctId !== ''
      this.#byProject.set(project, ofProject)
    }
    this.#beginInterval()
  }

  /** @returns null when nobody watches the project of the request. */
  watch (context: RequestContext, apiKey: string): RequestWatch | null {
    const watches = this.#byProject.get(context.project.id)
    if (watches === undefined) return null
    return new RequestWatch(watches, (sent, outcome) => {
      const hidesSent = this.#characters >= MAX_SENT_TOGETHER
      const described = describeArrival({ sent, outcome, apiKey, context }, { hidesSent })
      this.#characters += described.sent.length
      return described
    })
  }

  /** Adds what a thread collected. */
  add (arrivals: Arrivals): void {
    for (const { watchId, matched, events } of arrivals) {
      const seen = this.#seen.find(({ watch }) => watch.id === watchId)
      if (seen === undefined) continue
      seen.matched += matched
      seen.events.push(...events.slice(0, Math.max(0, seen.room - seen.events.length)))
      // Those of the thread were among its first.
      if (seen.next < seen.matched) seen.next = seen.events.length < seen.room ? seen.matched : Infinity
    }
  }

  /** Takes what was collected, and begins again. */
  take (): Arrivals {
    const taken = this.#seen.map(({ watch, matched, events }) => ({ watchId: watch.id, matched, events }))
    for (const seen of this.#seen) {
      // A pause of a moment, such as a turn of the event loop without a request, does not end the sampling.
      Object.assign(seen, { expected: Math.max(seen.matched, seen.expected / 2), matched: 0, events: [] })
    }
    this.#characters = 0
    this.#beginInterval()
    return taken
  }

  /** Decides how many events of each watch are described until the next report; the first one always is. */
  #beginInterval (): void {
    const share = (events: number): number => Math.max(1, Math.floor(events / this.#seen.length))
    for (const seen of this.#seen) {
      const isSampled = seen.expected > share(MAX_EVENTS)
      seen.room = share(isSampled ? SAMPLED_EVENTS : MAX_EVENTS)
      seen.stride = isSampled ? Math.ceil(seen.expected / seen.room) : 1
      seen.next = seen.events.length < seen.room ? seen.matched : Infinity
    }
  }
}

function begin (watch: Watch): Seen {
  return { watch, matched: 0, events: [], expected: 0, room: 0, stride: 1, next: 0 }
}

/** Shows the events of one request to those who watch its project. */
export class RequestWatch {
  readonly #watches: ProjectWatches
  readonly #describe: (sent: unknown, outcome: Outcome) => ArrivedEvent

  constructor (watches: ProjectWatches, describe: (sent: unknown, outcome: Outcome) => ArrivedEvent) {
    this.#watches = watches
    this.#describe = describe
  }

  /** Takes the event that came last. */
  note (sent: unknown, outcome: Outcome): void {
    const { seen, hasFilter } = this.#watches
    const names = !hasFilter ? null : outcome.kind === 'dropped' ? describeSent(sent) : outcome.row
    let described: ArrivedEvent | undefined
    for (const one of seen) {
      const { event, distinctId } = one.watch
      if (names !== null && event !== '' && event !== names.event) continue
      if (names !== null && distinctId !== '' && distinctId !== names.distinctId) continue
      if (one.matched++ !== one.next) continue
      one.events.push(described ??= this.#describe(sent, outcome))
      one.next = one.events.length < one.room ? one.next + one.stride : Infinity
    }
  }
}
