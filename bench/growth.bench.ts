import { auditEvents, countEvents, waitUntilVisible } from './audit.ts'
import { prepareLoad } from './load/run-load.ts'
import { type EventOptions } from './load/prepare-events.ts'
import { type BenchContext, type Figure, type Question } from './question.ts'
import { cpuBetween, readTiers } from './read-processes.ts'

/** Of all tiers that touch an event. */
type CpuPerEvent = number

/** What an event costs as things grow: the batch, the table, the number of names. */
export const growth: Question = {
  name: 'growth',
  asks: 'CPU an event by events a request, by rows in the table, by event names',
  async answer (context) {
    const figures: Figure[] = []
    const reference = await measure(context, { eventsPerRequest: 100 })
    for (const eventsPerRequest of [1, 10, 100, 1000]) {
      figures.push(against(`${eventsPerRequest} events a request`,
        await measure(context, { eventsPerRequest }), reference))
    }
    figures.push(against('10,000 event names',
      await measure(context, { eventsPerRequest: 100, events: { names: 10_000 } }), reference))
    const millions = context.quick ? [1] : [1, 10, 30]
    let small: CpuPerEvent | undefined
    for (const million of millions) {
      await growTable(context, million * 1_000_000)
      const cpu = await measure(context, { eventsPerRequest: 100 })
      small ??= cpu
      figures.push({
        name: `${million} million rows`, value: cpu, unit: 'us/event',
        reference: { name: 'at 1 million', value: small },
        ...(million === 30 ? { target: { atMost: 1.2 } } : {})
      })
    }
    return figures
  }
}

function against (name: string, value: CpuPerEvent, reference: CpuPerEvent): Figure {
  return { name, value, unit: 'us/event', reference: { name: '100 events a request', value: reference } }
}

let seed = 8000

async function measure (
  { stack, port, quick }: BenchContext, order: { eventsPerRequest: number, events?: EventOptions }
): Promise<CpuPerEvent> {
  const events = quick ? 20_000 : 200_000
  const requests = Math.min(events / order.eventsPerRequest, quick ? 5000 : 40_000)
  const sent = requests * order.eventsPerRequest
  const load = await prepareLoad({
    port, path: '/batch/', apiKey: stack.projectApiKey, seed: seed++, requests, connections: 16, gzip: true, ...order
  })
  const supervisor = stack.supervisor.pid as number
  const before = await countEvents(stack)
  const cpuBefore = readTiers(supervisor)
  const result = await load.run()
  if (result.failed > 0) throw new Error(`${result.failed} requests failed`)
  await waitUntilVisible(stack, before, sent)
  const { ingest, nats, pipeline, clickhouse } = cpuBetween(cpuBefore, readTiers(supervisor))
  await auditEvents(stack, before, sent)
  return (ingest + nats + pipeline + clickhouse) / sent
}

/** Fills project 5 inside ClickHouse until the table holds that many rows, and lets the merges of that finish. */
async function growTable ({ stack }: BenchContext, rows: number): Promise<void> {
  const [{ total } = { total: 0 }] = await stack.select<{ total: number }>('SELECT toUInt32(count()) AS total FROM events')
  for (let from = total; from < rows; from += 1_000_000) {
    await stack.clickhouse.command({
      query: `
        INSERT INTO events (project_id, uuid, event, distinct_id, timestamp, received_at, properties)
        SELECT 5, generateUUIDv4(), concat('event ', toString(number % 10)), concat('person-', toString(number % 100000)),
               now64(3) - toIntervalSecond(cityHash64(number) % 5184000), now64(3),
               concat('{"amount":', toString(number % 1000), ',"text":"', hex(cityHash64(number, 2)), '"}')
        FROM numbers({from:UInt64}, {step:UInt64})`,
      query_params: { from, step: Math.min(1_000_000, rows - from) }
    })
  }
  const deadline = Date.now() + 60_000
  while (Date.now() < deadline) {
    const [{ merges } = { merges: 0 }] =
      await stack.select<{ merges: number }>('SELECT toUInt32(count()) AS merges FROM system.merges')
    if (merges === 0) return
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}
