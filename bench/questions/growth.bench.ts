import { startStack, type Stack } from '../../test/start-stack.ts'
import { auditEvents, countEvents, waitUntilVisible } from '../audit.ts'
import { growTable } from './grow-table.ts'
import { prepareLoad } from '../load/run-load.ts'
import { type EventOptions } from '../load/prepare-events.ts'
import { median, type BenchContext, type Figure, type Question } from '../question.ts'
import { cpuBetween, readMergeCpu, readProcessCpu, readTiers } from '../read-processes.ts'
import { startSecondIngest } from './start-second-ingest.ts'

/** Of all tiers that touch an event, without background merges, in microseconds. */
type CpuPerEvent = number

/** What an event costs as things grow: the batch, the table, names, partitions, processes. */
export const growth: Question = {
  name: 'growth',
  asks: 'CPU an event, merges aside, by events a request, event names, partitions, ingest processes, rows in the table',
  async answer (context) {
    const { quick } = context
    const figures: Figure[] = []
    const reference = await measure(context)
    const against = (name: string, value: CpuPerEvent): void => {
      figures.push({ name, value, unit: 'us/event', reference: { name: '100 events a request, 1 partition', value: reference } })
    }
    for (const eventsPerRequest of quick ? [1, 1000] : [1, 10, 1000]) {
      against(`${eventsPerRequest} events a request`, await measure(context, { eventsPerRequest }))
    }
    against('10,000 event names', await measure(context, { events: { names: 10_000 } }))
    against('2 ingest processes', await measureTwoProcesses(context))
    // Each number of partitions takes a stack of its own, and a table of one size says nothing of how it grows.
    if (quick) return figures
    for (const partitions of [2, 4]) against(`${partitions} partitions`, await measurePartitions(context, partitions))
    return [...figures, ...await measureTable(context)]
  }
}

interface Order {
  eventsPerRequest?: number
  events?: EventOptions
  /** A further ingest process whose CPU counts. */
  secondIngest?: number
}

let seed = 8000

/** Median of three runs, after one that warms up; one run with `--quick`. */
async function measure (context: Pick<BenchContext, 'stack' | 'port' | 'quick'>, order: Order = {}): Promise<CpuPerEvent> {
  const runs: CpuPerEvent[] = []
  for (let run = 0; run < (context.quick ? 1 : 3); run++) runs.push(await measureOnce(context, order))
  return median(runs)
}

async function measureOnce (
  { stack, port, quick }: Pick<BenchContext, 'stack' | 'port' | 'quick'>, order: Order
): Promise<CpuPerEvent> {
  const { eventsPerRequest = 100, events = {}, secondIngest } = order
  const requests = Math.min((quick ? 20_000 : 100_000) / eventsPerRequest, quick ? 5000 : 20_000)
  const sent = requests * eventsPerRequest
  const load = await prepareLoad({
    port, path: '/batch/', apiKey: stack.projectApiKey, seed: seed++, requests, connections: 16, gzip: true,
    eventsPerRequest, events
  })
  const supervisor = stack.supervisor.pid as number
  const secondCpuUs = (): number => secondIngest === undefined ? 0 : readProcessCpu(secondIngest)
  const before = await countEvents(stack)
  const cpuBefore = readTiers(supervisor)
  const secondBefore = secondCpuUs()
  const mergesBefore = readMergeCpu(cpuBefore.clickhouse.pid)
  const result = await load.run()
  if (result.failed > 0) throw new Error(`${result.failed} requests failed`)
  await waitUntilVisible(stack, before, sent)
  const { ingest, nats, pipeline, clickhouse } = cpuBetween(cpuBefore, readTiers(supervisor))
  const second = secondCpuUs() - secondBefore
  const merges = readMergeCpu(cpuBefore.clickhouse.pid) - mergesBefore
  await auditEvents(stack, before, sent)
  if (secondIngest !== undefined && second === 0) throw new Error('the second ingest process took nothing')
  return (ingest + second + nats + pipeline + clickhouse - merges) / sent
}

async function measureTwoProcesses (context: BenchContext): Promise<CpuPerEvent> {
  const second = await startSecondIngest(context.stack)
  try {
    await measureOnce(context, { secondIngest: second.pid })
    return await measure(context, { secondIngest: second.pid })
  } finally {
    await second.stop()
  }
}

/** A stack of its own, because partitions are for its whole life. */
async function measurePartitions ({ quick }: BenchContext, partitions: number): Promise<CpuPerEvent> {
  const stack: Stack = await startStack({ env: { MILLRACE_PARTITIONS: String(partitions) } })
  try {
    const context = { stack, quick, port: Number(new URL(stack.url).port) }
    await measureOnce(context, {})
    return await measure(context)
  } finally {
    await stack.stop()
  }
}

async function measureTable (context: BenchContext): Promise<Figure[]> {
  const figures: Figure[] = []
  let small: CpuPerEvent | undefined
  for (const millions of [1, 10, 30]) {
    await growTable(context.stack, millions * 1_000_000)
    const cpu = await measure(context)
    small ??= cpu
    figures.push({
      name: `${millions} million rows`, value: cpu, unit: 'us/event', reference: { name: 'at 1 million', value: small },
      ...(millions === 30 && { target: { atMost: 1.2 } })
    })
  }
  return figures
}
