import type { Stack } from '../../test/start-stack.ts'

/** Holds made-up events of 60 days, most of them of the last weeks, with uuids of version 7 as old as they are. */
export const FILLED_PROJECT = 3

const STEP = 200_000

/** Maximum wait for merges, ms. */
const MERGES_TIMEOUT_MS = 120_000

/** Looks in a row that find no merge: those of parts that were attached begin later. */
const QUIET_LOOKS = 10

/** The table that `fillBeside` makes rows in. */
export const SIDE = 'filled_events'

/** Rows of one insert, within the time that a client waits: each becomes a part in each of three months. */
const STEP_BESIDE = 500_000

/** Inserts at a time: as many as the cores of a small machine. */
const AT_ONCE = 2

/** How many rows each stack has. */
const filled = new WeakMap<Stack, number>()

/**
 * Makes rows inside ClickHouse until the project holds that many, and lets most of the merges of that finish. Sending
 * them would measure something else. Questions share them, because a table of millions of rows takes a minute.
 */
export async function fillTable (stack: Stack, rows: number): Promise<void> {
  for (let from = filled.get(stack) ?? 0; from < rows; from += STEP) {
    await stack.clickhouse.command({
      query: FILL, query_params: { from, step: Math.min(STEP, rows - from), project: FILLED_PROJECT }
    })
    filled.set(stack, from + STEP)
  }
  await waitForMerges(stack.select)
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
      const step = Math.min(STEP_BESIDE, rows - from)
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
  await waitForMerges(select)
}

/** No row comes twice, so nothing has to be merged before it is written. */
const IN_ONE_BLOCK = {
  max_block_size: String(STEP_BESIDE),
  max_insert_block_size: String(STEP_BESIDE),
  max_insert_threads: '1',
  optimize_on_insert: 0,
  insert_deduplicate: 0
} as const

async function waitForMerges (select: Stack['select']): Promise<void> {
  const deadline = Date.now() + MERGES_TIMEOUT_MS
  let quiet = 0
  while (Date.now() < deadline) {
    const [{ merges } = { merges: 0 }] =
      await select<{ merges: number }>('SELECT toUInt32(count()) AS merges FROM system.merges')
    quiet = merges === 0 ? quiet + 1 : 0
    if (quiet === QUIET_LOOKS) return
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}

/**
 * What differs between tables: expressions by `number`, the row, and `first` and `second`, the words of a uuid.
 * `sinceMs` is how long before now it happened.
 */
export interface FillExpressions {
  table: string
  project: string
  person: string
  uuid: string
  event?: string
  sinceMs?: string
}

export const NATIVE_UUID = 'reinterpretAsUUID(bitOr(toUInt128(first), bitShiftLeft(toUInt128(second), 64)))'

const FILL = fillStatement({
  table: 'events', project: '{project:UInt32}', person: 'toString(cityHash64(number) % 10000)', uuid: NATIVE_UUID
})

/** An INSERT of made-up events, from `{from:UInt64}` on, `{step:UInt64}` of them. */
export function fillStatement ({
  table, project, person, uuid, event = "if(number % 2 = 0, '$pageview', concat('event ', toString(number % 10)))",
  sinceMs = 'pow((cityHash64(number, 1) % 1000000) / 1000000, 2) * 60 * 86400000'
}: FillExpressions): string {
  // Native uuids are two words with their bytes reversed: time and version in the first, the variant in the second.
  // The person is given, because computing it for each row would take longer than everything else.
  return `
  INSERT INTO ${table} (project_id, person_id, uuid, event, distinct_id, timestamp, received_at, inserted_at, properties,
                      session_id, current_url, pathname, host, browser, os)
  WITH now64(3) - toIntervalMillisecond(toInt64(${sinceMs})) AS time,
       concat('person-', ${person}, '-0f3c9a') AS person,
       bitOr(bitShiftLeft(toUInt64(toUnixTimestamp64Milli(time)), 16), 28672 + cityHash64(number, 3) % 4096) AS first,
       bitOr(bitShiftLeft(toUInt64(2), 62), bitShiftRight(cityHash64(number, 4), 2)) AS second
  SELECT ${project}, reinterpretAsUUID(sipHash128(person)), ${uuid},
         ${event}, person, time, time, time,
         concat('{"plan":"', if(number % 5 = 0, 'pro', 'free'), '","amount":', toString(number % 1000),
                ',"$browser":"Chrome","text":"', hex(cityHash64(number, 2)), '"}'),
         concat('session-', toString(intDiv(number, 20))), concat('https://shop.example.com/', toString(number % 999)), concat('/', toString(number % 999)),
         'shop.example.com', ['Chrome', 'Safari', 'Firefox'][number % 3 + 1], ['Windows', 'iOS'][number % 2 + 1]
  FROM numbers({from:UInt64}, {step:UInt64})`
}
