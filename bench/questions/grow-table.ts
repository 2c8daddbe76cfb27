import { type Stack } from '../../test/start-stack.ts'

const STEP = 1_000_000
const MERGES_TIMEOUT_MS = 60_000

/** Fills project 5 inside ClickHouse until the table holds that many rows, and lets the merges of that finish. */
export async function growTable (stack: Stack, rows: number): Promise<void> {
  const [{ total } = { total: 0 }] = await stack.select<{ total: number }>('SELECT toUInt32(count()) AS total FROM events')
  for (let from = total; from < rows; from += STEP) {
    await stack.clickhouse.command({
      query: `
        INSERT INTO events (project_id, uuid, event, distinct_id, timestamp, received_at, properties)
        SELECT 5, generateUUIDv4(), concat('event ', toString(number % 10)), concat('person-', toString(number % 100000)),
               now64(3) - toIntervalSecond(cityHash64(number) % 5184000), now64(3),
               concat('{"amount":', toString(number % 1000), ',"text":"', hex(cityHash64(number, 2)), '"}')
        FROM numbers({from:UInt64}, {step:UInt64})`,
      query_params: { from, step: Math.min(STEP, rows - from) }
    })
  }
  const deadline = Date.now() + MERGES_TIMEOUT_MS
  while (Date.now() < deadline) {
    const [{ merges } = { merges: 0 }] =
      await stack.select<{ merges: number }>('SELECT toUInt32(count()) AS merges FROM system.merges')
    if (merges === 0) return
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}
