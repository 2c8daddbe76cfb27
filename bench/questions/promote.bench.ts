import type { ClickHouseSettings } from '@clickhouse/client'
import { connectClickHouse, type ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { describeExpression, readPromotion } from '../../platform/query-log/promoted-column.ts'
import { promoteProperty } from '../../api/definitions/promote-property.ts'
import type { BenchContext, Figure, Question } from '../question.ts'

const ROWS = 5_000_000
const QUICK_ROWS = 250_000
const STEP = 500_000
/** Of each query. The fastest counts: the others were disturbed by whatever else the machine does. */
const REPETITIONS = 7

const PLAN = readPromotion({ property: 'plan', type: 'String' })

/** The same question, by the property and by its column. */
const byPlan = (value: string): string => `
  SELECT ${value} AS plan, count() AS events FROM events WHERE project_id = 4 GROUP BY plan ORDER BY plan`

/** What the profile of analysts sets. */
const AS_ANALYST: ClickHouseSettings = { final: 1, do_not_merge_across_partitions_select_final: 1 }

interface Measured {
  ms: number
  bytes: number
  rows: string
}

/** What promoting a property saves a query over millions of events, and what it costs. */
export const promote: Question = {
  name: 'promote',
  asks: 'an event count by a property over 5 million events of 700 bytes (a quarter of a million with --quick), before and after it is promoted',
  async answer (context) {
    // The fill takes longer than the stack's own client waits for one answer.
    const clickhouse = connectClickHouse({ url: context.stack.clickhouseUrl, requestTimeoutMs: 600_000 })
    try {
      const rows = context.quick ? QUICK_ROWS : ROWS
      await fill(context, rows)
      // Months at rest are one part each, which is when an analyst's FINAL costs nothing.
      await clickhouse.command({ query: 'OPTIMIZE TABLE events FINAL' })
      const before = await measure(clickhouse, describeExpression(PLAN))
      const beforeFinal = await measure(clickhouse, describeExpression(PLAN), AS_ANALYST)
      const startedAt = performance.now()
      const { bytes } = await promoteProperty(clickhouse, PLAN, { pollMs: 100 })
      const fillSeconds = (performance.now() - startedAt) / 1000
      const after = await measure(clickhouse, PLAN.column)
      const afterFinal = await measure(clickhouse, PLAN.column, AS_ANALYST)
      if (after.rows !== before.rows || afterFinal.rows !== before.rows) {
        throw new Error('the column counts otherwise than the property')
      }
      return [
        compare('query', 'ms', after.ms, before.ms),
        compare('query of an analyst (final = 1)', 'ms', afterFinal.ms, beforeFinal.ms),
        compare('bytes the query reads', 'bytes', after.bytes, before.bytes),
        { name: 'filling old events', value: fillSeconds, unit: 's' },
        { name: 'disk, per event', value: bytes / rows, unit: 'bytes' }
      ]
    } finally {
      await clickhouse.close()
    }
  }
}

function compare (name: string, unit: string, after: number, before: number): Figure {
  return { name, value: after, unit, reference: { name: 'before', value: before }, target: { atMost: 0.1 } }
}

/** Events of some twenty properties, as SDKs send them; made inside ClickHouse, because this measures queries. */
async function fill ({ stack }: BenchContext, rows: number): Promise<void> {
  for (let from = 0; from < rows; from += STEP) {
    await stack.clickhouse.command({
      query: `
        INSERT INTO events (project_id, uuid, event, distinct_id, timestamp, received_at, properties)
        SELECT 4, generateUUIDv4(), concat('event ', toString(number % 20)), concat('person-', toString(cityHash64(number) % 100000)),
          now64(3) - toIntervalSecond(cityHash64(number, 1) % 5184000), now64(3),
          concat('{"$lib":"web","$lib_version":"1.2.3","$browser":"Chrome","$os":"Windows","$session_id":"', hex(cityHash64(number, 3)),
            hex(cityHash64(number, 4)), '","$current_url":"https://shop.example.com/products/', toString(number % 9999),
            '","$referrer":"https://search.example.com/?q=', toString(number % 777), '","$screen_width":1920,"$screen_height":1080,',
            '"$viewport":"1903x969","$timezone":"Europe/Berlin","$host":"shop.example.com","$pathname":"/products/', toString(number % 9999),
            '","utm_source":"newsletter","title":"A product that somebody looks at","sku":"', hex(cityHash64(number, 2)), '","amount":',
            toString(number % 1000), ',"currency":"EUR","trial":', if(number % 7 = 0, 'true', 'false'), ',"plan":"',
            ['free', 'pro', 'team'][number % 3 + 1], '","user_agent":"Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/142.0"}')
        FROM numbers({from:UInt64}, {step:UInt64})`,
      query_params: { from, step: Math.min(STEP, rows - from) }
    })
  }
}

async function measure (clickhouse: ClickHouse, value: string, settings: ClickHouseSettings = {}): Promise<Measured> {
  let ms = Infinity
  let last: Omit<Measured, 'ms'> = { bytes: 0, rows: '' }
  for (let repetition = 0; repetition < REPETITIONS; repetition++) {
    const result = await clickhouse.query({ query: byPlan(value), format: 'JSON', clickhouse_settings: settings })
    const { statistics, data } = await result.json<Record<string, unknown>>()
    ms = Math.min(ms, statistics!.elapsed * 1000)
    last = { bytes: statistics!.bytes_read, rows: JSON.stringify(data) }
  }
  return { ms, ...last }
}
