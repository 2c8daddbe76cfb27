import { auditEvents, countEvents, readTiers, type Tier, type TierReadings, waitUntilVisible } from '../read-stack.ts'
import { prepareLoad } from '../load/load-generator.ts'
import type { BenchContext, Figure, Question } from '../question.ts'

const MINUTES = 10
/** In pieces, so that the prepared bodies of the load generator stay small. */
const PIECE_SECONDS = 20
const EVENTS_PER_SECOND = 20_000
const TIERS: readonly Tier[] = ['ingest', 'nats', 'pipeline', 'clickhouse']
const MB = 1e6

/**
 * Whether memory stays flat under a steady load. Asked by name only, for its length; `--quick` takes one minute.
 */
export const soak: Question = {
  name: 'soak',
  asks: `gzip batches of 100 at ${EVENTS_PER_SECOND} events/s for ${MINUTES} minutes: memory by tier, its first, middle and last fifth`,
  isLong: true,
  async answer (context) {
    const { stack, quick } = context
    const readings: TierReadings[] = []
    const timer = setInterval(() => readings.push(readTiers(stack.supervisor.pid as number)), 1000)
    const seconds = (quick ? 1 : MINUTES) * 60
    try {
      for (let second = 0; second < seconds; second += PIECE_SECONDS) {
        await send(context, 10_000 + second)
        process.stderr.write(`  ${second + PIECE_SECONDS} s: ${describe(readings.at(-1))}\n`)
      }
    } finally {
      clearInterval(timer)
    }
    // The first tenth warms up compilers and caches.
    const steady = readings.slice(Math.floor(readings.length / 10))
    const fifth = Math.floor(steady.length / 5)
    return TIERS.flatMap((tier): Figure[] => {
      const mean = (index: number): number =>
        average(steady.slice(index * fifth, (index + 1) * fifth).map((reading) => reading[tier].rssBytes)) / MB
      const bounded = tier === 'ingest' || tier === 'pipeline'
      return [
        { name: `rss ${tier}, first fifth`, value: mean(0), unit: 'MB' },
        // The writer's memory of fingerprints fills during the first four minutes, and is of one size from then on.
        {
          name: `rss ${tier}, last fifth`, value: mean(4), unit: 'MB',
          reference: { name: 'middle fifth', value: mean(2) }, ...(bounded && { target: { atMost: 1.1 } })
        },
        {
          name: `peak rss ${tier}`, value: (steady.at(-1)?.[tier].peakRssBytes ?? 0) / MB, unit: 'MB',
          ...(bounded && { target: { atMost: 512 } })
        }
      ]
    })
  }
}

function average (values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

/** For anyone who waits. */
function describe (reading: TierReadings | undefined): string {
  return TIERS.map((tier) => `${tier} ${Math.round((reading?.[tier].rssBytes ?? 0) / MB)} MB`).join(', ')
}

async function send ({ stack, port }: BenchContext, seed: number): Promise<void> {
  const requests = EVENTS_PER_SECOND * PIECE_SECONDS / 100
  const load = await prepareLoad({
    port, path: '/batch/', apiKey: stack.projectApiKey, seed, requests, eventsPerRequest: 100, connections: 16,
    gzip: true, ratePerSecond: EVENTS_PER_SECOND / 100
  })
  const before = await countEvents(stack)
  const { failed } = await load.run()
  if (failed > 0) throw new Error(`${failed} requests failed`)
  await waitUntilVisible(stack, before, requests * 100)
  await auditEvents(stack, before, requests * 100)
}
