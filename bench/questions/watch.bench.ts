import type { Stack } from '../../test/start-stack.ts'
import { prepareLoad } from '../load/load-generator.ts'
import { takeBodiesInTurns, type Watching } from '../load/take-bodies.ts'
import { median, type BenchContext, type Figure, type Question, repeat } from '../question.ts'
import { auditEvents, countEvents, cpuBetween, readTiers, type Tier, waitUntilVisible } from '../read-stack.ts'

const EVENTS_PER_REQUEST = 100
const CONNECTIONS = 16
const TIERS: readonly Tier[] = ['ingest', 'pipeline', 'nats', 'api']

/** CPU of a tier in microseconds an event. */
type Costs = Record<Tier, number>

/**
 * What it costs that somebody watches live events, in turns with nobody watching: the whole stack, whose turns differ
 * by some percent by themselves, and the tee of ingest alone.
 */
export const watch: Question = {
  name: 'watch',
  isLong: true,
  asks: 'the load of "batch", in turns with nobody and with somebody who watches live events',
  async answer (context) {
    const pairs = await repeat(context, async (repetition) => {
      const alone = await measure(context, 9000 + 2 * repetition)
      const feed = await openFeed(context.stack)
      try {
        return { alone, watched: await measure(context, 9001 + 2 * repetition), isSeen: feed.bytes() > 10_000 }
      } finally {
        await feed.close()
      }
    })
    if (!pairs.every(({ isSeen }) => isSeen)) throw new Error('the feed showed nothing')
    const ofTiers = TIERS.map((tier): Figure => ({
      name: `cpu ${tier}, watched`,
      value: median(pairs.map(({ watched }) => watched[tier])),
      unit: 'us/event',
      reference: { name: 'nobody watches', value: median(pairs.map(({ alone }) => alone[tier])) }
    }))
    return [...ofTiers, ...teeFigures(context, median(pairs.map(({ alone }) => alone.ingest)))]
  }
}

/** What the tee adds to an event in one process, beside all that ingest spends on one. */
function teeFigures ({ quick }: BenchContext, ingestUs: number): Figure[] {
  const { nobody, ...watched } = takeBodiesInTurns(quick ? 40 : 240)
  return (Object.entries(watched) as [Watching, number[]][]).map(([watching, times]): Figure => ({
    name: `tee, ${watching} watched`,
    // Of each turn with the one before it: what the machine does meanwhile changes both.
    value: median(times.map((us, turn) => us - nobody[turn]!)),
    unit: 'us/event',
    reference: { name: 'ingest in all', value: ingestUs },
    ...(watching !== 'nobody again' && { target: { atMost: 0.02 } })
  }))
}

async function measure ({ stack, port, quick }: BenchContext, seed: number): Promise<Costs> {
  const requests = quick ? 1000 : 4000
  const events = requests * EVENTS_PER_REQUEST
  const load = await prepareLoad({
    port, path: '/batch/', apiKey: stack.projectApiKey, seed, requests, eventsPerRequest: EVENTS_PER_REQUEST,
    connections: CONNECTIONS, gzip: true
  })
  const before = await countEvents(stack)
  const cpuBefore = readTiers(stack.supervisor.pid as number)
  const { failed } = await load.run()
  if (failed > 0) throw new Error(`${failed} of ${requests} requests failed`)
  await waitUntilVisible(stack, before, events)
  const cpu = cpuBetween(cpuBefore, readTiers(stack.supervisor.pid as number))
  await auditEvents(stack, before, events)
  return Object.fromEntries(Object.entries(cpu).map(([tier, us]) => [tier, us / events])) as Costs
}

/** Watches live events, and reads as fast as it comes. */
async function openFeed ({ url, personalApiKey }: Stack): Promise<{ bytes: () => number, close: () => Promise<void> }> {
  const ended = new AbortController()
  const feed = await fetch(`${url}/api/projects/1/events/live`, { headers: { authorization: `Bearer ${personalApiKey}` }, signal: ended.signal })
  if (!feed.ok) throw new Error(`the feed answered ${feed.status}`)
  let bytes = 0
  const reading = (async () => {
    for await (const chunk of feed.body!) bytes += chunk.length
    // Ended by us.
  })().catch(() => {})
  return {
    bytes: () => bytes,
    async close () {
      ended.abort()
      await reading
    }
  }
}
