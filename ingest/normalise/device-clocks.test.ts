/** Random devices with random clocks and bad connections, against the time when their events happened. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createPlainNormaliser } from '../../test/support/plain-normaliser.ts'
import { createRandom, pickOne, type Random } from '../../test/support/random.ts'
import { findEvents } from '../capture/find-events.ts'
import { createTakeEvent } from '../capture/take-event.ts'
import { type EventSink, takeBody } from '../capture/take-parsed-body.ts'
import { createUuidV7, formatUuid } from '../../engines/uuid.ts'

/**
 * A script runs a million, with another seed:
 * `MILLRACE_TEST_EVENTS=1000000 MILLRACE_TEST_SEED=5 npx node ingest/normalise/device-clocks.test.ts`.
 */
const EVENTS = Number(process.env.MILLRACE_TEST_EVENTS ?? 20_000)
const SEED = Number(process.env.MILLRACE_TEST_SEED ?? 39)

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** Beyond any hour, so that no event is from before 2000 or after the day. */
const HAPPENED = Date.UTC(2026, 10, 21, 12)

/** What one event says on its way, and how far the stored time may be from the true one. */
interface Sending {
  query: Record<string, string>
  body: Record<string, unknown>
  receivedAt: number
  tolerance: number
}

interface Device {
  random: Random
  /** By how much its clock is ahead, milliseconds. */
  skew: number
  isVersion7: boolean
  /** From the event to the first attempt, and of each attempt to us. */
  flushDelay: number
  latency: number
  retries: number
}

/** How an SDK sends: each takes a device and makes the request that arrives. */
const SDKS: Record<string, (device: Device) => Sending> = {
  'posthog-js': (device) => {
    const { random, flushDelay, latency, retries, skew, isVersion7 } = device
    const attemptAt = HAPPENED + flushDelay + backoffOf(device)
    const sentAt = attemptAt + skew
    const form = pickOne(['body', 'sent_at', '_'] as const, random)
    const hasOffset = isVersion7 && random() < 0.3
    const time = hasOffset ? { offset: flushDelay } : { timestamp: iso(HAPPENED + skew) }
    return {
      query: { ...(form !== 'body' && { [form]: String(sentAt) }), ...(retries > 0 && { retry_count: String(retries) }) },
      body: { ...batchOf(device, 'web', time), ...(form === 'body' && { sent_at: iso(sentAt) }) },
      receivedAt: attemptAt + latency,
      tolerance: latency + 2 * SECOND
    }
  },
  // A retry from a wrong clock is indistinguishable from a longer wait, so these clocks are right.
  'posthog-js of 2023, which repeats the time of its first attempt': (device) => {
    const { flushDelay, latency, retries } = device
    const waited = backoffOf(device)
    return {
      query: { _: String(HAPPENED + flushDelay), ...(retries > 0 && { retry_count: String(retries) }) },
      body: batchOf({ ...device, skew: 0, isVersion7: true }, 'web', { timestamp: iso(HAPPENED) }),
      receivedAt: HAPPENED + flushDelay + waited + latency,
      // The waiting before the first retry is as short as that before a flush.
      tolerance: retries === 1 ? waited + latency : 0
    }
  },
  'posthog-ios': (device) => {
    const { flushDelay, latency, retries, skew } = device
    const attemptAt = HAPPENED + flushDelay + retries * 30 * SECOND
    return {
      query: {},
      body: { ...batchOf(device, 'posthog-ios', { timestamp: iso(HAPPENED + skew) }), sent_at: iso(attemptAt + skew) },
      receivedAt: attemptAt + latency,
      tolerance: latency + 2 * SECOND
    }
  },
  'posthog-node, on a host of right time': (device) => {
    const { flushDelay, latency, retries } = { ...device, retries: Math.min(3, device.retries) }
    return {
      query: {},
      body: { ...batchOf({ ...device, skew: 0, isVersion7: true }, 'posthog-node', { timestamp: iso(HAPPENED) }), sent_at: iso(HAPPENED + flushDelay) },
      receivedAt: HAPPENED + flushDelay + retries * 13 * SECOND + latency,
      tolerance: 0
    }
  },
  'posthog-react-native, first attempt': (device) => {
    const { flushDelay, latency, skew, isVersion7 } = device
    return {
      query: {},
      body: { ...batchOf(device, 'posthog-react-native', { timestamp: iso(HAPPENED + skew) }), sent_at: iso(HAPPENED + flushDelay + skew) },
      receivedAt: HAPPENED + flushDelay + latency,
      // Nothing tells a clock that is some minutes behind from waiting.
      tolerance: latency + (isVersion7 && skew < latency && skew >= latency - 2 * MINUTE ? Math.abs(skew) : 2 * SECOND)
    }
  },
  'a script without a uuid': (device) => {
    const { flushDelay, latency, skew } = device
    const timestamp = iso(HAPPENED + skew)
    return {
      query: {},
      body: { event: 'e', distinct_id: 'd', timestamp, sent_at: iso(HAPPENED + flushDelay + skew) },
      receivedAt: HAPPENED + flushDelay + latency,
      tolerance: latency + 2 * SECOND
    }
  },
  'a script that says nothing but the age': ({ flushDelay, latency }) => ({
    query: {},
    body: { event: 'e', distinct_id: 'd', offset: flushDelay },
    receivedAt: HAPPENED + flushDelay + latency,
    tolerance: latency
  })
}

function randomDevice (random: Random): Device {
  const skew = pickOne([0, 0, 500, 5 * SECOND, MINUTE, HOUR, 2 * HOUR, 12 * HOUR, 30 * DAY], random)
  return {
    random,
    skew: Math.round(skew * (random() * 2 - 1)),
    isVersion7: random() < 0.7,
    flushDelay: Math.round(random() * 5 * SECOND),
    latency: Math.round(random() ** 3 * 2 * SECOND),
    retries: random() < 0.5 ? 0 : Math.floor(random() * 11)
  }
}

/** How long posthog-js waits until it tries for the n-th time again: 3 s, doubled each time, a quarter more or less. */
function backoffOf ({ random, retries }: Device): number {
  const waits = Array.from({ length: retries }, (_, i) => 3 * SECOND * 2 ** i * (0.75 + random() / 2))
  return Math.ceil(waits.reduce((sum, ms) => sum + ms, 0))
}

function batchOf ({ skew, isVersion7 }: Device, lib: string, time: object): { batch: object[] } {
  const uuid = isVersion7 ? formatUuid(createUuidV7(HAPPENED + skew)) : randomUUID()
  return { batch: [{ event: 'e', distinct_id: 'd', uuid, properties: { $lib: lib }, ...time }] }
}

function iso (time: number): string {
  return new Date(time).toISOString()
}

const takeEvent = createTakeEvent({
  normaliseEvent: createPlainNormaliser(), isAnnounced: () => true, maxPayloadBytes: () => 1e6,
  onUnexpected: (error) => { throw error }
})

/** The time that is stored of the only event of a request. */
async function storedTime ({ query, body, receivedAt }: Sending): Promise<number> {
  let time = NaN
  const sink: EventSink = { add: ({ row }) => { time = row.timestamp } }
  await takeBody(findEvents(body), { requestId: 'r', query, isEngage: false, receivedAt }, {
    admit: () => ({ project: { id: 1, anonymizeIps: false }, ip: '', visitor: { address: '', userAgent: '' } }), takeEvent, sink
  })
  return time
}

t.test(`${EVENTS} events of random devices have the time when they happened`, async (t) => {
  t.comment(`seed ${SEED}`)
  const random = createRandom(SEED)
  const wrong: object[] = []
  const counts = new Map(Object.keys(SDKS).map((name) => [name, { events: 0, retried: 0, skewed: 0, worstMs: 0 }]))
  for (let i = 0; i < EVENTS; i++) {
    const device = randomDevice(random)
    const name = pickOne([...counts.keys()], random)
    const sending = SDKS[name]!(device)
    const error = await storedTime(sending) - HAPPENED
    const count = counts.get(name)!
    count.events++
    count.retried += Number(device.retries > 0)
    count.skewed += Number(device.skew !== 0)
    count.worstMs = Math.max(count.worstMs, Math.abs(error))
    if (!(Math.abs(error) <= sending.tolerance)) wrong.push({ name, error, device, sending })
  }

  for (const [name, count] of counts) t.comment(`${name}: ${JSON.stringify(count)}`)
  t.same(wrong.slice(0, 3), [], `${wrong.length} of ${EVENTS} further from it than they may be`)
})
