import {
  auditEvents, countEvents, cpuBetween, readProcessCpu, readTiers, type Tier, waitUntilVisible
} from '../read-stack.ts'
import { prepareLoad } from '../load/load-generator.ts'
import type { LoadResult } from '../load/send-requests.ts'
import { startBareServer } from '../load/bare-server.ts'
import { median, percentile, type BenchContext, type Figure, type Question } from '../question.ts'

const CONNECTIONS = 64
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
  asks: 'one event a request, 64 connections, against a bare Fastify route with the same body and answer',
  async answer (context) {
    const bare = await startBareServer({ status: 1 })
    const runs: { bare: LoadResult, bareCpu: number, ours: LoadResult, cpu: Record<Tier, number> }[] = []
    const fetched: { bare: LoadResult, ours: LoadResult }[] = []
    try {
      for (let repetition = 0; repetition <= context.repetitions; repetition++) {
        const bareBefore = readProcessCpu(bare.pid)
        const reference = await load(context, bare.port, 2000 + repetition)
        const bareCpu = (readProcessCpu(bare.pid) - bareBefore) / reference.requests
        const measured = await measureOurs(context, 3000 + repetition)
        const byFetch = {
          bare: await load(context, bare.port, 3500 + repetition, true),
          ours: (await measureOurs(context, 3700 + repetition, true)).result
        }
        if (repetition === 0) continue
        runs.push({ bare: reference, bareCpu, ours: measured.result, cpu: measured.cpu })
        fetched.push(byFetch)
      }
    } finally {
      bare.stop()
    }
    const bareCpu = median(runs.map((run) => run.bareCpu))
    return [
      ...compareRates('requests', runs, { atLeast: 0.8 }),
      ...compareRates('requests by fetch', fetched),
      ...TIERS.map((tier): Figure => ({
        name: `cpu ${tier}`, value: median(runs.map(({ cpu }) => cpu[tier])), unit: 'us/event',
        ...(tier === 'ingest' && { reference: { name: 'bare Fastify', value: bareCpu } })
      }))
    ]
  }
}

function compareRates (
  name: string, runs: readonly { bare: LoadResult, ours: LoadResult }[], target?: Figure['target']
): Figure[] {
  const figure = (label: string, unit: string, read: (result: LoadResult) => number): Figure => ({
    name: label, value: median(runs.map(({ ours }) => read(ours))), unit,
    reference: { name: 'bare Fastify', value: median(runs.map(({ bare }) => read(bare))) }
  })
  return [
    { ...figure(name, '1/s', ({ requests, durationMs }) => requests / durationMs * 1000), ...(target && { target }) },
    figure(`${name}, p50`, 'ms', ({ latenciesMs }) => percentile(latenciesMs, 0.5)),
    figure(`${name}, p99`, 'ms', ({ latenciesMs }) => percentile(latenciesMs, 0.99))
  ]
}

async function measureOurs (
  context: BenchContext, seed: number, byFetch = false
): Promise<{ result: LoadResult, cpu: Record<Tier, number> }> {
  const supervisor = context.stack.supervisor.pid as number
  const before = await countEvents(context.stack)
  const cpuBefore = readTiers(supervisor)
  const result = await load(context, context.port, seed, byFetch)
  await waitUntilVisible(context.stack, before, result.requests)
  const cpu = cpuBetween(cpuBefore, readTiers(supervisor))
  await auditEvents(context.stack, before, result.requests)
  for (const tier of TIERS) cpu[tier] /= result.requests
  return { result, cpu }
}

async function load ({ stack, quick }: BenchContext, port: number, seed: number, byFetch = false): Promise<LoadResult> {
  const prepared = await prepareLoad({
    port, path: '/capture/', apiKey: stack.projectApiKey, seed, requests: (quick ? 6000 : 30_000) / (byFetch ? 5 : 1),
    eventsPerRequest: 1, connections: CONNECTIONS, gzip: false, byFetch
  })
  const result = await prepared.run()
  if (result.failed > 0) throw new Error(`${result.failed} requests failed`)
  return result
}
