import { setTimeout as delay } from 'node:timers/promises'
import { readCompleteThrough } from '../../platform/read-watermark.ts'
import { prepareLoad } from '../load/load-generator.ts'
import { type BenchContext, type Figure, percentile, type Question } from '../question.ts'
import { auditEvents, countEvents, waitUntilVisible } from '../read-stack.ts'

const EVENTS_PER_SECOND = 20_000
const EVENTS_PER_REQUEST = 100
const SAMPLE_MS = 100

/** The first seconds warm up compilers and caches, in milliseconds. */
const WARM_UP_MS = 4000

/** How far the watermark is behind the clock under a steady load. */
export const watermark: Question = {
  name: 'watermark',
  asks: `gzip batches of ${EVENTS_PER_REQUEST} at ${EVENTS_PER_SECOND} events/s: how far complete_through is behind, as a reader of the table sees it`,
  isLong: true,
  async answer (context): Promise<Figure[]> {
    const lagsMs: number[] = []
    const stopped = new AbortController()
    const sampling = sample(context, lagsMs, stopped.signal)
    try {
      await send(context, context.quick ? 15 : 60)
    } finally {
      stopped.abort()
      await sampling
    }
    const steady = lagsMs.slice(WARM_UP_MS / SAMPLE_MS)
    return [
      { name: 'lag p50', value: percentile(steady, 0.5), unit: 'ms' },
      { name: 'lag p99', value: percentile(steady, 0.99), unit: 'ms', target: { atMost: 1500 } }
    ]
  }
}

async function sample ({ stack }: BenchContext, lagsMs: number[], signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const askedAt = Date.now()
    const through = await readCompleteThrough(stack.clickhouse)
    if (through !== null && !signal.aborted) lagsMs.push(askedAt - through.getTime())
    await delay(Math.max(0, askedAt + SAMPLE_MS - Date.now()))
  }
}

async function send ({ stack, port }: BenchContext, seconds: number): Promise<void> {
  const requests = EVENTS_PER_SECOND * seconds / EVENTS_PER_REQUEST
  const load = await prepareLoad({
    port, path: '/batch/', apiKey: stack.projectApiKey, seed: 77, requests, eventsPerRequest: EVENTS_PER_REQUEST,
    connections: 16, gzip: true, ratePerSecond: EVENTS_PER_SECOND / EVENTS_PER_REQUEST
  })
  const before = await countEvents(stack)
  const { failed } = await load.run()
  if (failed > 0) throw new Error(`${failed} requests failed`)
  await waitUntilVisible(stack, before, requests * EVENTS_PER_REQUEST)
  await auditEvents(stack, before, requests * EVENTS_PER_REQUEST)
}
