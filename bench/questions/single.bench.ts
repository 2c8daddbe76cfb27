import {
  auditEvents, countEvents, cpuBetween, readProcessCpu, readTiers, type Tier, waitUntilVisible
} from '../read-stack.ts'
import { prepareLoad } from '../load/load-generator.ts'
import type { LoadResult } from '../load/send-requests.ts'
import { startBareServer } from '../load/bare-server.ts'
import { median, percentile, repeat, type BenchContext, type Figure, type Question } from '../question.ts'

const CONNECTIONS = 64

/** As behind a balancer, or of many phones; with half the repetitions. */
const MORE_CONNECTIONS = [256, 1024]
const TIERS: readonly Tier[] = ['ingest', 'nats', 'pipeline', 'clickhouse']

/**
 * How many single events a second are accepted, against a Fastify route that does nothing with the same body.
 *
 * Both servers share the machine with the load generator, ours with the rest of the stack as well. `cpu ingest`
 * compares just the processes that answer: the ratio on a machine with cores for everything. `requests by fetch`
 * compares them with an ordinary client in front.
 */
export const single: Question = {
  name: 'single',
  asks: 'one event a request; 64, 256 and 1,024 connections; against a bare Fastify route with the same body and answer',
  async answer (context) {
    const bare = await startBareServer({ status: 1 })
    try {
      const runs = await repeat(context, async (repetition) => ({
        bare: await measureBare(context, bare, { connections: CONNECTIONS, seed: 2000 + repetition }),
        ours: await measureOurs(context, { connections: CONNECTIONS, seed: 3000 + repetition }),
        fetched: {
          bare: await measureBare(context, bare, { connections: CONNECTIONS, seed: 3500 + repetition, byFetch: true }),
          ours: await measureOurs(context, { connections: CONNECTIONS, seed: 3700 + repetition, byFetch: true })
        }
      }))
      const figures = [
        ...compareRates('requests', runs, { atLeast: 0.55 }),
        ...compareRates('requests by fetch', runs.map(({ fetched }) => fetched)),
        ...compareCpu('cpu', runs)
      ]
      for (const connections of MORE_CONNECTIONS) {
        const half = { ...context, repetitions: Math.ceil(context.repetitions / 2) }
        const more = await repeat(half, async (repetition) => ({
          bare: await measureBare(context, bare, { connections, seed: 3800 + repetition }),
          ours: await measureOurs(context, { connections, seed: 3900 + repetition })
        }))
        const name = `${connections} connections`
        figures.push(...compareRates(`requests, ${name}`, more), ...compareCpu(`cpu, ${name},`, more))
      }
      return figures
    } finally {
      bare.stop()
    }
  }
}

/** A load, and the CPU of each process that took part, in microseconds a request. */
interface Measured {
  result: LoadResult
  cpu: Partial<Record<Tier, number>>
}

interface Order {
  connections: number
  seed: number
  byFetch?: boolean
}

function compareCpu (name: string, runs: readonly { bare: Measured, ours: Measured }[]): Figure[] {
  const of = (tier: Tier, whose: 'bare' | 'ours'): number => median(runs.map((run) => run[whose].cpu[tier] ?? 0))
  const bare = { name: 'bare Fastify', value: of('ingest', 'bare') }
  return [
    ...TIERS.map((tier): Figure => ({
      name: `${name} ${tier}`, value: of(tier, 'ours'), unit: 'us/event',
      ...(tier === 'ingest' && { reference: bare, target: { atMost: 1.4 } })
    })),
    {
      name: `${name} all tiers`,
      value: median(runs.map(({ ours }) => TIERS.reduce((sum, tier) => sum + (ours.cpu[tier] ?? 0), 0))),
      unit: 'us/event', reference: bare, target: { atMost: 2.5 }
    }
  ]
}

function compareRates (
  name: string, runs: readonly { bare: Measured, ours: Measured }[], target?: Figure['target']
): Figure[] {
  const figure = (label: string, unit: string, read: (result: LoadResult) => number): Figure => ({
    name: label, value: median(runs.map(({ ours }) => read(ours.result))), unit,
    reference: { name: 'bare Fastify', value: median(runs.map(({ bare }) => read(bare.result))) }
  })
  return [
    { ...figure(name, '1/s', ({ requests, durationMs }) => requests / durationMs * 1000), ...(target && { target }) },
    figure(`${name}, p50`, 'ms', ({ latenciesMs }) => percentile(latenciesMs, 0.5)),
    figure(`${name}, p99`, 'ms', ({ latenciesMs }) => percentile(latenciesMs, 0.99))
  ]
}

async function measureBare (
  context: BenchContext, bare: { port: number, pid: number }, order: Order
): Promise<Measured> {
  const before = readProcessCpu(bare.pid)
  const result = await load(context, bare.port, order)
  return { result, cpu: { ingest: (readProcessCpu(bare.pid) - before) / result.requests } }
}

async function measureOurs (context: BenchContext, order: Order): Promise<Measured> {
  const supervisor = context.stack.supervisor.pid as number
  const before = await countEvents(context.stack)
  const cpuBefore = readTiers(supervisor)
  const result = await load(context, context.port, order)
  await waitUntilVisible(context.stack, before, result.requests)
  const cpu = cpuBetween(cpuBefore, readTiers(supervisor))
  await auditEvents(context.stack, before, result.requests)
  for (const tier of TIERS) cpu[tier] /= result.requests
  return { result, cpu }
}

async function load (
  { stack, quick }: BenchContext, port: number, { connections, seed, byFetch = false }: Order
): Promise<LoadResult> {
  const prepared = await prepareLoad({
    port, path: '/capture/', apiKey: stack.projectApiKey, seed, requests: (quick ? 6000 : 30_000) / (byFetch ? 5 : 1),
    eventsPerRequest: 1, connections, gzip: false, byFetch
  })
  const result = await prepared.run()
  if (result.failed > 0) throw new Error(`${result.failed} requests failed`)
  return result
}
