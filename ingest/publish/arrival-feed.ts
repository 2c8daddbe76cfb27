import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { WatchLeases } from '../../platform/nats/watch-leases.ts'
import { type ArrivedEvents, arrivedSubject } from '../../schema/wire/live-feed.ts'
import { ArrivalCollector } from '../capture/arrivals.ts'

/** Between two reports to those who watch, in milliseconds. */
const REPORT_EVERY_MS = 100

/** A larger report goes without its events, which count as not shown: a server takes 1 MiB by default. */
const MAX_REPORT_BYTES = 900_000

/** Tells those who watch what arrives. What cannot be sent at once is lost, and nothing waits for it. */
export interface ArrivalFeed {
  /** Null while nobody watches: all that an event costs then is to ask. */
  readonly collector: ArrivalCollector | null
  /** Hears of watchers on this connection, and reports to it. */
  open (connection: NatsConnection): void
  close (): void
}

/** @param options.processId  Tells the reports of processes apart. */
export function createArrivalFeed (options: { processId: string }): ArrivalFeed {
  const collector = new ArrivalCollector()
  /** Events that each watch asked for since it is known here: a report that is lost leaves the next ones exact. */
  const matched = new Map<string, number>()
  let connection: NatsConnection | null = null
  let timer: NodeJS.Timeout | undefined

  const leases = new WatchLeases((watches) => {
    collector.setWatches(watches)
    const ids = new Set(watches.map(({ id }) => id))
    for (const id of matched.keys()) {
      if (!ids.has(id)) matched.delete(id)
    }
    if (leases.isAnyone) timer ??= setInterval(report, REPORT_EVERY_MS).unref()
    else stop()
  })

  function stop (): void {
    clearInterval(timer)
    timer = undefined
  }

  function report (): void {
    for (const { watchId, matched: count, events } of collector.take()) {
      if (count === 0) continue
      const total = (matched.get(watchId) ?? 0) + count
      matched.set(watchId, total)
      const message: ArrivedEvents = { from: options.processId, matched: total, events }
      try {
        connection?.publish(arrivedSubject(watchId), encode(message))
      } catch {
        // A closed connection. Events go their own way, and the screen says that nothing comes.
      }
    }
  }

  return {
    get collector () { return leases.isAnyone ? collector : null },
    open (opened) {
      connection = opened
      leases.listen(opened)
    },
    close () {
      leases.clear()
      stop()
    }
  }
}

function encode (message: ArrivedEvents): Buffer {
  const bytes = Buffer.from(JSON.stringify(message))
  return bytes.length <= MAX_REPORT_BYTES ? bytes : Buffer.from(JSON.stringify({ ...message, events: [] }))
}
