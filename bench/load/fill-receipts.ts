import type { Stack } from '../../test/start-stack.ts'
import { FILLED_PROJECT } from './fill-table.ts'

/** Rows of one insert, within the time that a client waits: each becomes a part in each of three months. */
const STEP = 500_000

/** Inserts at a time: as many as the cores of a small machine. */
const AT_ONCE = 2

/** What is merged after so long is merged, in milliseconds. */
const MERGES_TIMEOUT_MS = 60_000

/** The table that rows are made in. */
export const SIDE = 'filled_events'

/**
 * Makes rows of 60 days for look-ups of single events: a million distinct ids of which few have most of the events, one
 * event in ten with an uuid of version 4, one in ten of another project, the days before now fuller than those of two
 * months ago.
 */
export async function fillForReceipts (stack: Stack, rows: number): Promise<void> {
  await fillBeside(stack, rows, FILL)
}

/**
 * Makes rows in a table beside and attaches them, because no look-up reads what the views of `events` count from them,
 * which takes longer than everything else.
 *
 * @param fill  Inserts into `SIDE` by the parameters `project`, `from` and `step`.
 */
export async function fillBeside ({ clickhouse, select }: Stack, rows: number, fill: string): Promise<void> {
  await clickhouse.command({ query: `CREATE TABLE ${SIDE} AS events` })
  let next = 0
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let from = next; from < rows; from = next) {
      const step = Math.min(STEP, rows - from)
      next = from + step
      await clickhouse.command({
        query: fill, query_params: { from, step, project: FILLED_PROJECT }, clickhouse_settings: IN_ONE_BLOCK
      })
    }
  }))
  const partitions = await select<{ partition: string }>(
    `SELECT DISTINCT partition FROM system.parts WHERE database = currentDatabase() AND table = '${SIDE}' AND active`)
  for (const { partition } of partitions) {
    await clickhouse.command({ query: `ALTER TABLE events ATTACH PARTITION ${partition} FROM ${SIDE}` })
  }
  await clickhouse.command({ query: `DROP TABLE ${SIDE} SYNC` })
  const deadline = Date.now() + MERGES_TIMEOUT_MS
  while (Date.now() < deadline) {
    const [row] = await select<{ merges: number }>('SELECT toUInt32(count()) AS merges FROM system.merges')
    if (row?.merges === 0) return
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}

/** No row comes twice, so nothing has to be merged before it is written. */
const IN_ONE_BLOCK = {
  max_block_size: String(STEP),
  max_insert_block_size: String(STEP),
  max_insert_threads: '1',
  optimize_on_insert: 0,
  insert_deduplicate: 0
} as const

// Native uuids are two words with their bytes reversed: time and version in the first, the variant in the second.
// The person is given, because computing it for each row would take longer than everything else.
const FILL = `
  INSERT INTO ${SIDE} (project_id, person_id, uuid, event, distinct_id, timestamp, received_at, inserted_at, properties,
                       session_id, current_url, host, browser, os)
  WITH now64(3) - toIntervalMillisecond(toInt64(pow((cityHash64(number, 1) % 1000000) / 1000000, 2) * 60 * 86400000)) AS time,
       concat('person-', toString(toUInt32(pow(1000000, (cityHash64(number) % 1000000) / 1000000))), '-0f3c9a') AS person,
       bitOr(bitShiftLeft(toUInt64(toUnixTimestamp64Milli(time)), 16), 28672 + cityHash64(number, 3) % 4096) AS first,
       bitOr(bitShiftLeft(toUInt64(2), 62), bitShiftRight(cityHash64(number, 4), 2)) AS second
  SELECT {project:UInt32} + if(cityHash64(number, 9) % 10 = 0, 1 + cityHash64(number, 8) % 50, 0), reinterpretAsUUID(sipHash128(person)),
         if(number % 10 = 7, generateUUIDv4(number), reinterpretAsUUID(bitOr(toUInt128(first), bitShiftLeft(toUInt128(second), 64)))),
         if(number % 2 = 0, '$pageview', concat('event ', toString(number % 10))), person, time, time, time,
         concat('{"plan":"', if(number % 5 = 0, 'pro', 'free'), '","amount":', toString(number % 1000),
                ',"$browser":"Chrome","text":"', hex(cityHash64(number, 2)), '"}'),
         concat('session-', toString(intDiv(number, 20))), concat('https://shop.example.com/', toString(number % 999)),
         'shop.example.com', ['Chrome', 'Safari', 'Firefox'][number % 3 + 1], ['Windows', 'iOS'][number % 2 + 1]
  FROM numbers({from:UInt64}, {step:UInt64})`
