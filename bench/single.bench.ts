import { auditEvents, countEvents, waitUntilVisible } from './audit.ts'
import { prepareLoad } from './load/run-load.ts'
import { type LoadResult } from './load/send-requests.ts'
import { startBareServer } from './load/start-bare-server.ts'
import { median, percentile, type BenchContext, type Question } from './question.ts'

const CONNECTIONS = 64

/** How many single events a second are accepted, against a Fastify route that does nothing with the same body. */
export const single: Question = {
  name: 'single',
  asks: 'one event a request, 64 connections, against a bare Fastify route with the same body and answer',
  async answer (context) {
    const bare = await startBareServer({ status: 1 })
    const ours: LoadResult[] = []
    const theirs: LoadResult[] = []
    try {
      for (let repetition = 0; repetition <= context.repetitions; repetition++) {
        const reference = await load(context, bare.port, 2000 + repetition)
        const measured = await measureOurs(context, 3000 + repetition)
        if (repetition === 0) continue
        theirs.push(reference)
        ours.push(measured)
      }
    } finally {
      bare.stop()
    }
    const rate = (results: LoadResult[]): number =>
      median(results.map(({ requests, durationMs }) => requests / durationMs * 1000))
    const latency = (results: LoadResult[], share: number): number =>
      median(results.map(({ latenciesMs }) => percentile(latenciesMs, share)))
    const against = (value: number): { name: string, value: number } => ({ name: 'bare Fastify', value })
    return [
      {
        name: 'requests', value: rate(ours), unit: '1/s', reference: against(rate(theirs)), target: { atLeast: 0.8 }
      },
      { name: 'answer p50', value: latency(ours, 0.5), unit: 'ms', reference: against(latency(theirs, 0.5)) },
      { name: 'answer p99', value: latency(ours, 0.99), unit: 'ms', reference: against(latency(theirs, 0.99)) }
    ]
  }
}

async function measureOurs (context: BenchContext, seed: number): Promise<LoadResult> {
  const before = await countEvents(context.stack)
  const result = await load(context, context.port, seed)
  await waitUntilVisible(context.stack, before, result.requests)
  await auditEvents(context.stack, before, result.requests)
  return result
}

async function load ({ stack, quick }: BenchContext, port: number, seed: number): Promise<LoadResult> {
  const prepared = await prepareLoad({
    port, path: '/capture/', apiKey: stack.projectApiKey, seed, requests: quick ? 10_000 : 40_000,
    eventsPerRequest: 1, connections: CONNECTIONS, gzip: false
  })
  const result = await prepared.run()
  if (result.failed > 0) throw new Error(`${result.failed} requests failed`)
  return result
}
