import { createInsertFrames, INSERT_SETTINGS, INSERT_SETTINGS_VERSION, type InsertFrames } from '../../pipeline/events/insert/insert-frames.ts'
import { makeEvents } from '../../pipeline/testing/publish-events.ts'
import { createClickHouseAgent } from '../../platform/clickhouse/connect-clickhouse.ts'
import { encodeFrame } from '../../schema/wire/frame-codec.ts'
import { buildEventBlock } from '../../test/support/event-block.ts'
import { FLUSH_SETTINGS } from '../../schema/migrate/migrate-clickhouse.ts'
import { median, type BenchContext, type Figure, type Question } from '../question.ts'
import { cpuBetween, readTiers } from '../read-stack.ts'

const ROUNDS = 6
const INSERTS_A_ROUND = 5
const PROJECT = 5

interface Measured {
  ms: number[]
  /** Of ClickHouse, in microseconds. */
  cpu: number
}

/** What it costs that an insert is on the disk before it is acknowledged. */
export const flush: Question = {
  name: 'flush',
  asks: 'an insert of the pipeline into `events` and its views, flushed to the disk before the answer, against one that is not, in turns',
  async answer (context) {
    const agent = createClickHouseAgent()
    const insertFrames = createInsertFrames({ url: context.stack.clickhouseUrl, agent })
    try {
      const figures: Figure[] = []
      for (const rows of [25, 1000, 10_000]) figures.push(...await compare(context, insertFrames, rows))
      return figures
    } finally {
      await setFlushing(context, true)
      agent.destroy()
    }
  }
}

async function compare (context: BenchContext, insertFrames: InsertFrames, rows: number): Promise<Figure[]> {
  const measured = { flushed: { ms: [], cpu: 0 }, unflushed: { ms: [], cpu: 0 } } satisfies Record<string, Measured> as
    Record<'flushed' | 'unflushed', Measured>
  const rounds = context.quick ? 2 : ROUNDS
  for (let round = 0; round < rounds; round++) {
    for (const how of ['flushed', 'unflushed'] as const) {
      await setFlushing(context, how === 'flushed')
      await insertSome(context, insertFrames, { rows, into: measured[how], token: `flush ${rows} ${how} ${round}` })
    }
  }
  const events = rounds * INSERTS_A_ROUND * rows
  const against = (name: string, unit: string, of: (measured: Measured) => number): Figure => ({
    name: `${name}, ${rows} events`, value: of(measured.flushed), unit,
    reference: { name: 'not flushed', value: of(measured.unflushed) }
  })
  return [
    against('insert', 'ms', ({ ms }) => median(ms)),
    against('CPU of ClickHouse', 'us/event', ({ cpu }) => cpu / events)
  ]
}

async function insertSome (
  { stack }: BenchContext, insertFrames: InsertFrames, options: { rows: number, into: Measured, token: string }
): Promise<void> {
  const { rows, into, token } = options
  const supervisor = stack.supervisor.pid as number
  for (let i = 0; i < INSERTS_A_ROUND; i++) {
    const frame = await encodeFrame(buildEventBlock(makeEvents(rows, () => ({ project_id: PROJECT }))))
    const before = readTiers(supervisor)
    const startedAt = performance.now()
    await insertFrames({
      frames: [frame], token: `${token} ${i}`, settings: INSERT_SETTINGS[INSERT_SETTINGS_VERSION]!
    })
    into.ms.push(performance.now() - startedAt)
    into.cpu += cpuBetween(before, readTiers(supervisor)).clickhouse
  }
}

async function setFlushing ({ stack }: BenchContext, on: boolean): Promise<void> {
  const settings = Object.keys(FLUSH_SETTINGS).map((name) => `${name} = ${on ? 1 : 0}`).join(', ')
  for (const table of ['events', 'event_volumes_by_day', 'event_property_counts']) {
    await stack.clickhouse.command({ query: `ALTER TABLE ${table} MODIFY SETTING ${settings}` })
  }
}
