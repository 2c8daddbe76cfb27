import { auditEvents, countEvents, waitUntilVisible } from '../read-stack.ts'
import { createEventSource } from '../load/prepare-events.ts'
import { prepareLoad } from '../load/load-generator.ts'
import { percentile, type BenchContext, type Figure, type Question } from '../question.ts'

/** Events a second of background load, and how many events a request of it carries. */
const RATES = [
  { eventsPerSecond: 10, eventsPerRequest: 1 },
  { eventsPerSecond: 1000, eventsPerRequest: 10 },
  { eventsPerSecond: 20_000, eventsPerRequest: 100 }
]
const PROBE_PAUSE_MS = 150

/** How long after the send a SELECT finds the event, at several loads. */
export const visible: Question = {
  name: 'visible',
  asks: 'from the send of an event to the first SELECT that finds it, beside 10, 1,000 and 20,000 events/s',
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
    return figures
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
