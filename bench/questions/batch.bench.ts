import {
  auditEvents, countEvents, cpuBetween, readMergeCpu, readTiers, type Tier, waitUntilVisible
} from '../read-stack.ts'
import { prepareLoad } from '../load/load-generator.ts'
import { median, percentile, type BenchContext, type Figure, type Question, repeat } from '../question.ts'

const EVENTS_PER_REQUEST = 100
const CONNECTIONS = 16
/** The tiers that touch every event. */
const EVENT_TIERS: readonly Tier[] = ['ingest', 'nats', 'pipeline', 'clickhouse']

/** How fast gzip batches of 100 events become visible rows, and what CPU each tier spends on an event. */
export const batch: Question = {
  name: 'batch',
  asks: 'gzip batches of 100 events of about 770 bytes and 22 properties, 16 connections',
  async answer (context) {
    const runs = await repeat(context, async (repetition) => await runOnce(context, 1000 + repetition))
    const pick = (read: (run: BatchRun) => number): number => median(runs.map(read))
    const figures: Figure[] = [
      { name: 'accepted', value: pick((run) => run.acceptedPerSecond), unit: 'events/s' },
      {
        name: 'visible', value: pick((run) => run.visiblePerSecond), unit: 'events/s', target: { atLeast: 60_000 }
      },
      { name: 'cpu', value: pick((run) => run.cpuUs), unit: 'us/event', target: { atMost: 24 } },
      ...EVENT_TIERS.map((tier): Figure => (
        { name: `cpu ${tier}`, value: pick((run) => run.cpuUsByTier[tier]), unit: 'us/event' })),
      { name: 'cpu of merges in clickhouse', value: pick((run) => run.mergesUs), unit: 'us/event' },
      { name: 'cpu without merges', value: pick((run) => run.cpuUs - run.mergesUs), unit: 'us/event' },
      { name: 'answer p50', value: pick((run) => percentile(run.latenciesMs, 0.5)), unit: 'ms' },
      { name: 'answer p99', value: pick((run) => percentile(run.latenciesMs, 0.99)), unit: 'ms' }
    ]
    const readings = readTiers(context.stack.supervisor.pid as number)
    for (const tier of EVENT_TIERS) {
      figures.push({ name: `peak rss ${tier}`, value: readings[tier].peakRssBytes / 1e6, unit: 'MB' })
    }
    return figures
  }
}

interface BatchRun {
  acceptedPerSecond: number
  visiblePerSecond: number
  cpuUs: number
  cpuUsByTier: Record<Tier, number>
  /** Of the background merges, which are part of `clickhouse`. */
  mergesUs: number
  latenciesMs: number[]
}

async function runOnce ({ stack, port, quick }: BenchContext, seed: number): Promise<BatchRun> {
  const requests = quick ? 1000 : 4000
  const events = requests * EVENTS_PER_REQUEST
  const load = await prepareLoad({
    port, path: '/batch/', apiKey: stack.projectApiKey, seed, requests, eventsPerRequest: EVENTS_PER_REQUEST,
    connections: CONNECTIONS, gzip: true
  })
  const supervisor = stack.supervisor.pid as number
  const before = await countEvents(stack)
  const cpuBefore = readTiers(supervisor)
  const mergesBefore = readMergeCpu(cpuBefore.clickhouse.pid)
  const startedAt = performance.now()
  const result = await load.run()
  if (result.failed > 0) throw new Error(`${result.failed} of ${requests} requests failed`)
  await waitUntilVisible(stack, before, events)
  const visibleMs = performance.now() - startedAt
  const cpu = cpuBetween(cpuBefore, readTiers(supervisor))
  const mergesUs = (readMergeCpu(cpuBefore.clickhouse.pid) - mergesBefore) / events
  await auditEvents(stack, before, events)

  const cpuUsByTier = Object.fromEntries(
    Object.entries(cpu).map(([tier, us]) => [tier, us / events])) as Record<Tier, number>
  return {
    acceptedPerSecond: events / result.durationMs * 1000,
    visiblePerSecond: events / visibleMs * 1000,
    cpuUs: EVENT_TIERS.reduce((sum, tier) => sum + cpuUsByTier[tier], 0),
    cpuUsByTier,
    mergesUs,
    latenciesMs: result.latenciesMs
  }
}
