/**
 * What ingest itself spends on the events of a batch, in one process without network and streams: body, validation,
 * normalisation, encoding, and the tee for those who watch. In turns it shows tenths of a microsecond, which a whole
 * stack hides in its noise.
 */
import { randomBytes } from 'node:crypto'
import { ArrivalCollector } from '../../ingest/capture/arrivals.ts'
import { type EventSink, takeBody, type TakeBodySteps } from '../../ingest/capture/take-parsed-body.ts'
import { createTakeEvent } from '../../ingest/capture/take-event.ts'
import { FrameEncoder } from '../../ingest/frames/frame-encoder.ts'
import type { Project } from '../../platform/directory/read-keys.ts'
import { createFingerprintKey } from '../../schema/wire/frame-message.ts'
import type { Watch } from '../../schema/wire/live-feed.ts'
import { createEventSource } from './prepare-events.ts'
import { createPlainNormaliser } from '../../test/support/plain-normaliser.ts'

/** A turn is short, so that the machine does the same meanwhile as in the turns beside it. */
const BODIES = 100
const EVENTS_PER_BODY = 100

/** Ingest reports ten times a second, which at 50,000 events/s is once in so many events. */
const EVENTS_PER_REPORT = 5000

const everything: Watch = { id: 'all', project: 1, event: '', distinctId: '' }

/** Who watches, by name. */
const WATCHES = {
  nobody: [],
  // The same once more: how far two turns differ by themselves.
  'nobody again': [],
  everything: [everything],
  'one name': [{ ...everything, event: 'event 3' }],
  'twenty different': [
    everything, ...Array.from({ length: 19 }, (_, index) => ({ ...everything, id: `w${index}`, event: `event ${index}` }))
  ]
} satisfies Record<string, Watch[]>

export type Watching = keyof typeof WATCHES

const STEPS: Pick<TakeBodySteps, 'admit'> = {
  admit: () => ({ project: { id: 1, anonymizeIps: false } as Project, ip: '', visitor: { address: '', userAgent: '' } })
}

/** @returns CPU in microseconds an event of each turn, by who watches. */
export function takeBodiesInTurns (turns: number): Record<Watching, number[]> {
  const key = createFingerprintKey(randomBytes(16))
  const next = createEventSource(1)
  const bodies = Array.from({ length: BODIES }, () =>
    JSON.stringify({ api_key: 'phc_bench', batch: Array.from({ length: EVENTS_PER_BODY }, next) }))
  const takeEvent = createTakeEvent({
    normaliseEvent: createPlainNormaliser(), isAnnounced: () => true, maxPayloadBytes: () => 1e6,
    onUnexpected: (error) => { throw error }
  })
  const cases = Object.entries(WATCHES).map(([name, watches]) => {
    const collector = new ArrivalCollector(() => key)
    collector.setWatches(watches)
    return { name: name as Watching, collector: watches.length === 0 ? null : collector, times: [] as number[] }
  })

  // The first turns warm up. Each begins with another case.
  for (let turn = -16; turn < turns; turn++) {
    for (const { collector, times } of cases.map((_, index) => cases[(index + turn + 16) % cases.length]!)) {
      const us = takeBodies(collector)
      if (turn >= 0) times.push(us)
    }
  }
  return Object.fromEntries(cases.map(({ name, times }) => [name, times])) as Record<Watching, number[]>

  function takeBodies (collector: ArrivalCollector | null): number {
    let encoder = new FrameEncoder(() => key)
    let sinceReport = 0
    const sink: EventSink = { add: ({ row }) => { encoder.append(row) } }
    const before = process.cpuUsage()
    for (const text of bodies) {
      const { api_key: apiKey, batch } = JSON.parse(text) as { api_key: string, batch: unknown[] }
      const request = { requestId: 'r', query: {}, isEngage: false, receivedAt: Date.now() }
      const body = { fields: { api_key: apiKey }, pieces: [batch] }
      void takeBody(body, request, { ...STEPS, takeEvent, sink, arrivals: collector })
      sinceReport += EVENTS_PER_BODY
      if (sinceReport < EVENTS_PER_REPORT) continue
      sinceReport = 0
      encoder = new FrameEncoder(() => key)
      for (const report of collector?.take() ?? []) Buffer.from(JSON.stringify({ from: 'bench', ...report }))
    }
    const { user, system } = process.cpuUsage(before)
    return (user + system) / (BODIES * EVENTS_PER_BODY)
  }
}
