import { auditEvents, countEvents, readTiers, waitUntilVisible } from '../read-stack.ts'
import { createEventSource } from '../load/prepare-events.ts'
import { prepareLoad } from '../load/load-generator.ts'
import { buildPost, sendRequests, type LoadResult } from '../load/send-requests.ts'
import { percentile, type BenchContext, type Figure, type Question } from '../question.ts'

/** Just under the 20 MB of the contract. */
const LARGE_BYTES = 19_900_000
const SMALL_PER_SECOND = 200

/** Whether batches of 19.9 MB delay small requests, and what memory they take. */
export const large: Question = {
  name: 'large',
  asks: 'batches of 19.9 MB of JSON beside 200 small captures/s',
  async answer (context) {
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
