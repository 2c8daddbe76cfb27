import { setTimeout as delay } from 'node:timers/promises'
import { readCompleteThrough } from '../../platform/clickhouse/connect-clickhouse.ts'
import { prepareLoad } from '../load/load-generator.ts'
import { type BenchContext, type Figure, percentile, type Question } from '../question.ts'
import { auditEvents, countEvents, readTiers, type Tier, type TierReadings, waitUntilVisible } from '../read-stack.ts'

const EVENTS_PER_SECOND = 20_000
const EVENTS_PER_REQUEST = 100
const SAMPLE_MS = 100

/** In pieces, so that the prepared bodies of the load generator stay small. */
const PIECE_SECONDS = 15

/** The first seconds warm up compilers and caches, in milliseconds. */
const WARM_UP_MS = 4000

const TIERS: readonly Tier[] = ['ingest', 'nats', 'pipeline', 'clickhouse']
const MB = 1e6

/** How far the watermark is behind the clock under a steady load, and whether memory stays flat. */
export const watermark: Question = {
  name: 'watermark',
  asks: `gzip batches of ${EVENTS_PER_REQUEST} at ${EVENTS_PER_SECOND} events/s for a minute (--minutes): how far complete_through is behind, and memory by tier`,
  isLong: true,
  async answer (context): Promise<Figure[]> {
    const lagsMs: number[] = []
    const readings: TierReadings[] = []
    const stopped = new AbortController()
    const sampling = sample(context, lagsMs, stopped.signal)
    const timer = setInterval(() => readings.push(readTiers(context.stack.supervisor.pid as number)), 1000)
    const seconds = context.quick ? PIECE_SECONDS : (context.minutes ?? 1) * 60
    try {
      for (let second = 0; second < seconds; second += PIECE_SECONDS) await send(context, 10_000 + second)
    } finally {
      clearInterval(timer)
      stopped.abort()
      await sampling
    }
    const steady = lagsMs.slice(WARM_UP_MS / SAMPLE_MS)
    return [
      { name: 'lag p50', value: percentile(steady, 0.5), unit: 'ms' },
      { name: 'lag p99', value: percentile(steady, 0.99), unit: 'ms', target: { atMost: 1500 } },
      ...TIERS.flatMap((tier) => describeMemory(tier, readings.slice(Math.floor(readings.length / 10))))
    ]
  }
}

/** Resident memory of a tier, without the first tenth, which warms up compilers and caches. */
function describeMemory (tier: Tier, readings: readonly TierReadings[]): Figure[] {
  const fifth = Math.floor(readings.length / 5)
  const mean = (index: number): number => {
    const part = readings.slice(index * fifth, (index + 1) * fifth)
    return part.reduce((sum, reading) => sum + reading[tier].rssBytes, 0) / part.length / MB
  }
  const isBounded = tier === 'ingest' || tier === 'pipeline'
  return [
    // The writer's memory of fingerprints fills during the first four minutes, and is of one size from then on.
    { name: `rss ${tier}, last fifth`, value: mean(4), unit: 'MB', reference: { name: 'middle fifth', value: mean(2) } },
    {
      name: `peak rss ${tier}`, value: (readings.at(-1)?.[tier].peakRssBytes ?? 0) / MB, unit: 'MB',
      ...(isBounded && { target: { atMost: 512 } })
    }
  ]
}

async function sample ({ stack }: BenchContext, lagsMs: number[], signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const askedAt = Date.now()
    const through = await readCompleteThrough(stack.clickhouse)
    if (through !== null && !signal.aborted) lagsMs.push(askedAt - through.getTime())
    await delay(Math.max(0, askedAt + SAMPLE_MS - Date.now()))
  }
}

async function send ({ stack, port }: BenchContext, seed: number): Promise<void> {
  const requests = EVENTS_PER_SECOND * PIECE_SECONDS / EVENTS_PER_REQUEST
  const load = await prepareLoad({
    port, path: '/batch/', apiKey: stack.projectApiKey, seed, requests, eventsPerRequest: EVENTS_PER_REQUEST,
    connections: 16, gzip: true, ratePerSecond: EVENTS_PER_SECOND / EVENTS_PER_REQUEST
  })
  const before = await countEvents(stack)
  const { failed } = await load.run()
  if (failed > 0) throw new Error(`${failed} requests failed`)
  await waitUntilVisible(stack, before, requests * EVENTS_PER_REQUEST)
  await auditEvents(stack, before, requests * EVENTS_PER_REQUEST)
}
