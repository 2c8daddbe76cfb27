import { fork } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import path from 'node:path'
import { json } from 'node:stream/consumers'
import { type Stack, startStack } from '../../test/start-stack.ts'
import { readAddresses } from '../../embedded/data-dir/stack-access.ts'
import {
  auditEvents, countEvents, cpuBetween, readMergeCpu, readProcessCpu, readTiers, waitUntilVisible
} from '../read-stack.ts'
import { fillTable } from '../load/fill-table.ts'
import { prepareLoad } from '../load/load-generator.ts'
import type { EventOptions } from '../load/prepare-events.ts'
import { type BenchContext, type Figure, median, type Question } from '../question.ts'

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
    for (const partitions of [2, 4]) {
      if (performance.now() > context.deadline) break
      against(`${partitions} partitions`, await measurePartitions(context, partitions))
    }
    return [...figures, ...await measureTable(context)]
  }
}

interface Order {
  eventsPerRequest?: number
  events?: EventOptions
  /** A further ingest process whose CPU counts. */
  secondIngest?: number
}

type Where = Pick<BenchContext, 'stack' | 'port' | 'quick'>

let seed = 8000

/** Median of three runs, or of as many as there is time for; one run with `--quick`. */
async function measure (context: Where & Pick<BenchContext, 'deadline'>, order: Order = {}): Promise<CpuPerEvent> {
  const runs: CpuPerEvent[] = []
  do runs.push(await measureOnce(context, order))
  while (runs.length < (context.quick ? 1 : 3) && performance.now() < context.deadline)
  return median(runs)
}

async function measureOnce (
  { stack, port, quick }: Where, order: Order
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
async function measurePartitions ({ quick, deadline }: BenchContext, partitions: number): Promise<CpuPerEvent> {
  const stack: Stack = await startStack({ env: { MILLRACE_PARTITIONS: String(partitions) } })
  try {
    const context = { stack, quick, deadline, port: Number(new URL(stack.url).port) }
    await measureOnce(context, {})
    return await measure(context)
  } finally {
    await stack.stop()
  }
}

async function measureTable (context: BenchContext): Promise<Figure[]> {
  const figures: Figure[] = []
  let small: CpuPerEvent | undefined
  // Thirty million rows take minutes by themselves.
  for (const millions of context.isNamed ? [1, 10, 30] : [1, 10]) {
    await fillTable(context.stack, millions * 1_000_000)
    const cpu = await measure(context)
    small ??= cpu
    figures.push({
      name: `${millions} million rows`, value: cpu, unit: 'us/event', reference: { name: 'at 1 million', value: small },
      ...(millions > 1 && { target: { atMost: 1.2 } })
    })
  }
  return figures
}

const READY_TIMEOUT_MS = 20_000

/** Starts another ingest process on the port of the first, as an operator with more cores would. */
async function startSecondIngest (stack: Stack): Promise<{ pid: number, stop: () => Promise<void> }> {
  const { apiUrl } = await readAddresses(stack.dataDir)
  const child = fork(path.join(import.meta.dirname, '..', '..', 'ingest', 'main.ts'), {
    stdio: 'ignore',
    env: {
      ...process.env,
      MILLRACE_PORT: new URL(stack.url).port,
      MILLRACE_API_URL: apiUrl,
      NATS_URL: stack.natsUrl,
      DATABASE_URL: stack.databaseUrl,
      MILLRACE_DATA_DIR: stack.dataDir
    }
  })
  const deadline = Date.now() + READY_TIMEOUT_MS
  while (!await answers(stack.url, child.pid as number)) {
    if (child.exitCode !== null || Date.now() > deadline) throw new Error('the second ingest process did not start')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return {
    pid: child.pid as number,
    async stop () {
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
    }
  }
}

/** Whether a new connection, which the kernel gives to one of both processes, reaches this one. */
async function answers (url: string, pid: number): Promise<boolean> {
  const [response] = await once(http.get(`${url}/_readiness`, { agent: false }), 'response') as [http.IncomingMessage]
  return (await json(response) as { pid?: number }).pid === pid
}
