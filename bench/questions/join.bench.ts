import { INSERT_SETTINGS, INSERT_SETTINGS_VERSION, createInsertFrames, type InsertFrames } from '../../pipeline/events/insert/insert-frames.ts'
import { joinFrames } from '../../pipeline/events/insert/join-frames.ts'
import { createClickHouseAgent } from '../../platform/clickhouse/connect-clickhouse.ts'
import { frameOf } from '../../schema/wire/frame-message.ts'
import { createEventSource } from '../load/prepare-events.ts'
import { median, type BenchContext, type Figure, type Question } from '../question.ts'
import { cpuBetween, readMergeCpu, readTiers } from '../read-stack.ts'
import { encodeEvents, type SentEvent } from './floor.bench.ts'

/** What the pipeline inserts at once, at 16,000 events a second. */
const ROWS_AN_INSERT = 8000
const INSERTS_A_ROUND = 2
const WAYS = ['joined', 'as they came'] as const

/** CPU microseconds an event. */
interface Cost {
  clickhouse: number
  /** Of the process that joins. */
  joining: number
}

/** What it saves ClickHouse that small frames become one block, and what that costs. */
export const join: Question = {
  name: 'join',
  asks: `inserts of ${ROWS_AN_INSERT} events in frames of 10 to 40, joined to one block and as they came, in turns; merges left out`,
  async answer (context) {
    const agent = createClickHouseAgent()
    const insertFrames = createInsertFrames({ url: context.stack.clickhouseUrl, agent })
    try {
      const figures: Figure[] = []
      const sizes = context.quick ? [40] : [10, 20, 40]
      for (const rows of sizes) figures.push(...await compare(context, insertFrames, rows))
      return figures
    } finally {
      agent.destroy()
    }
  }
}

async function compare (context: BenchContext, insertFrames: InsertFrames, rows: number): Promise<Figure[]> {
  const costs: Record<typeof WAYS[number], Cost[]> = { joined: [], 'as they came': [] }
  for (let round = 0; round <= context.repetitions; round++) {
    for (const way of WAYS) {
      const cost = await measure(context, insertFrames, { rows, way, seed: 9000 + rows * 10 + round })
      // The first round warms up.
      if (round > 0) costs[way].push(cost)
    }
  }
  const of = (way: typeof WAYS[number], read: (cost: Cost) => number): number => median(costs[way].map(read))
  const against = (name: string, read: (cost: Cost) => number): Figure => ({
    name: `${name}, frames of ${rows}`, value: of('joined', read), unit: 'us/event',
    reference: { name: 'as they came', value: of('as they came', read) }
  })
  return [
    against('ClickHouse', ({ clickhouse }) => clickhouse),
    against('with joining', ({ clickhouse, joining }) => clickhouse + joining)
  ]
}

async function measure (
  { stack }: BenchContext, insertFrames: InsertFrames, options: { rows: number, way: typeof WAYS[number], seed: number }
): Promise<Cost> {
  const { rows, way, seed } = options
  const events = ROWS_AN_INSERT * INSERTS_A_ROUND
  const nextEvent = createEventSource(seed)
  const inserts = Array.from({ length: INSERTS_A_ROUND }, () =>
    encodeEvents(Array.from({ length: ROWS_AN_INSERT }, nextEvent) as SentEvent[], rows)
      .map((payload) => frameOf(payload, rows)))

  const own = process.cpuUsage()
  const bodies = way === 'joined' ? await Promise.all(inserts.map(joinFrames)) : inserts
  const { user, system } = process.cpuUsage(own)

  const supervisor = stack.supervisor.pid as number
  const before = readTiers(supervisor)
  const mergesBefore = readMergeCpu(before.clickhouse.pid)
  for (const [index, frames] of bodies.entries()) {
    await insertFrames({
      frames, token: `join ${seed} ${way} ${index}`, settings: INSERT_SETTINGS[INSERT_SETTINGS_VERSION]!
    })
  }
  const merges = readMergeCpu(before.clickhouse.pid) - mergesBefore
  const { clickhouse } = cpuBetween(before, readTiers(supervisor))
  return { clickhouse: (clickhouse - merges) / events, joining: (user + system) / events }
}
