import { createEventSource } from '../load/prepare-events.ts'
import { prepareLoad } from '../load/load-generator.ts'
import { buildPost, sendRequests, type LoadResult } from '../load/send-requests.ts'
import { percentile, type BenchContext, type Figure, type Question } from '../question.ts'
import { auditEvents, countEvents, readTiers, waitUntilVisible } from '../read-stack.ts'

/** Events a second of background load, and how many events a request of it carries. */
const RATES = [
  { eventsPerSecond: 10, eventsPerRequest: 1 },
  { eventsPerSecond: 1000, eventsPerRequest: 10 },
  { eventsPerSecond: 20_000, eventsPerRequest: 100 }
]
const PROBE_PAUSE_MS = 150

/** Just under the 20 MB of the contract. */
const LARGE_BYTES = 19_900_000
const SMALL_PER_SECOND = 200

/** How long after the send a SELECT finds the event, at several loads; how long answers take beside large bodies. */
export const visible: Question = {
  name: 'visible',
  asks: 'from the send of an event to the first SELECT that finds it, beside 10, 1,000 and 20,000 events/s; answers to 200 small captures/s beside batches of 19.9 MB',
  async answer (context) {
    const figures: Figure[] = []
    for (const rate of RATES) {
      const delaysMs = await probe(context, rate)
      const name = `${rate.eventsPerSecond} events/s`
      figures.push({ name: `${name} p50`, value: percentile(delaysMs, 0.5), unit: 'ms' })
      figures.push({
        name: `${name} p99`, value: percentile(delaysMs, 0.99), unit: 'ms',
        ...(rate.eventsPerSecond === 1000 ? { target: { atMost: 2000 } } : {})
      })
    }
    return [...figures, ...await measureBesideLarge(context)]
  }
}

async function probe (context: BenchContext, rate: (typeof RATES)[number]): Promise<number[]> {
  const { stack, port, quick } = context
  const seconds = quick ? 3 : 20
  const requestsPerSecond = rate.eventsPerSecond / rate.eventsPerRequest
  const requests = Math.ceil(requestsPerSecond * seconds)
  const load = await prepareLoad({
    port, path: '/batch/', apiKey: stack.projectApiKey, seed: 4000, gzip: true, connections: 8,
    requests, eventsPerRequest: rate.eventsPerRequest,
    ratePerSecond: requestsPerSecond
  })
  const nextEvent = createEventSource(5000 + rate.eventsPerSecond)
  const before = await countEvents(stack)
  const delaysMs: number[] = []
  const finished = new AbortController()
  const background = load.run().finally(() => finished.abort())
  while (!finished.signal.aborted) {
    delaysMs.push(await sendAndFind(context, nextEvent() as { uuid: string, distinct_id: string, event: string }))
    await new Promise((resolve) => setTimeout(resolve, PROBE_PAUSE_MS))
  }
  const result = await background
  if (result.failed > 0) throw new Error(`${result.failed} requests of the background load failed`)
  const sent = requests * rate.eventsPerRequest + delaysMs.length
  await waitUntilVisible(stack, before, sent)
  await auditEvents(stack, before, sent)
  return delaysMs
}

/** Sends one event and waits for it; resolves with the milliseconds until a SELECT found it. */
export async function sendAndFind (
  { stack }: BenchContext, event: { uuid: string, distinct_id: string, event: string }
): Promise<number> {
  const sentAt = performance.now()
  const response = await fetch(`${stack.url}/capture/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: stack.projectApiKey, ...event })
  })
  await response.arrayBuffer()
  while (performance.now() - sentAt < 30_000) {
    // Found by the primary key, so that the search itself costs next to nothing.
    const found = await stack.select(
      `SELECT 1 FROM events WHERE project_id = 1 AND toDate(timestamp) >= today() - 1 AND event = {event:String}
       AND distinct_id = {distinctId:String} AND uuid = {uuid:UUID} LIMIT 1`,
      { event: event.event, distinctId: event.distinct_id, uuid: event.uuid })
    if (found.length > 0) return performance.now() - sentAt
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  throw new Error(`event ${event.uuid} was not visible after 30 s`)
}

/** Whether batches of 19.9 MB delay small requests, and what memory they take. */
async function measureBesideLarge (context: BenchContext): Promise<Figure[]> {
  const before = await countEvents(context.stack)
  const alone = await sendSmall(context, 5)
  await waitUntilVisible(context.stack, before, alone.requests)
  await auditEvents(context.stack, before, alone.requests)
  const figures: Figure[] = [
    { name: 'small alone p99', value: percentile(alone.latenciesMs, 0.99), unit: 'ms' }
  ]
  for (const inFlight of context.quick ? [4] : [1, 4, 16]) {
    const small = await besideLarge(context, inFlight)
    const name = `beside ${inFlight}`
    figures.push({ name: `small ${name} p50`, value: percentile(small.latenciesMs, 0.5), unit: 'ms' })
    figures.push({
      name: `small ${name} p99`, value: percentile(small.latenciesMs, 0.99), unit: 'ms',
      ...(inFlight === 4
        ? {
            reference: { name: 'alone', value: percentile(alone.latenciesMs, 0.99) },
            target: { atMost: 5 }
          }
        : {})
    })
    figures.push({ name: `small ${name} max`, value: Math.max(...small.latenciesMs), unit: 'ms' })
    const { ingest } = readTiers(context.stack.supervisor.pid as number)
    figures.push({
      name: `peak rss ingest ${name}`, value: ingest.peakRssBytes / 1e6, unit: 'MB',
      ...(inFlight === 16 ? { target: { atMost: 1000 } } : {})
    })
  }
  return figures
}

async function besideLarge (context: BenchContext, inFlight: number): Promise<LoadResult> {
  const { stack, port } = context
  const before = await countEvents(stack)
  const { body, events } = buildLargeBody(stack.projectApiKey, 6000 + inFlight)
  const requests = Array.from({ length: inFlight }, () => buildPost('/batch/', body))
  const [small, big] = await Promise.all([
    sendSmall(context, context.quick ? 4 : 10),
    sendRequests(requests, { port, connections: inFlight })
  ])
  if (big.failed > 0 || small.failed > 0) throw new Error(`${big.failed} large and ${small.failed} small requests failed`)
  // The same large body is sent several times: its events count once.
  await waitUntilVisible(stack, before, events + small.requests)
  await auditEvents(stack, before, events + small.requests)
  return small
}

async function sendSmall ({ stack, port }: BenchContext, seconds: number): Promise<LoadResult> {
  const load = await prepareLoad({
    port, path: '/capture/', apiKey: stack.projectApiKey, seed: performance.now(), gzip: false, connections: 16,
    requests: SMALL_PER_SECOND * seconds, eventsPerRequest: 1, ratePerSecond: SMALL_PER_SECOND
  })
  return await load.run()
}

/** A batch of 19.9 MB of JSON, and how many events it has. */
export function buildLargeBody (apiKey: string, seed: number): { body: Buffer, events: number } {
  const nextEvent = createEventSource(seed)
  const texts: string[] = []
  let bytes = 100
  while (bytes < LARGE_BYTES) {
    const text = JSON.stringify(nextEvent())
    bytes += text.length + 1
    texts.push(text)
  }
  texts.pop()
  return { body: Buffer.from(`{"api_key":"${apiKey}","batch":[${texts.join(',')}]}`), events: texts.length }
}
