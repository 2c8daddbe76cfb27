import { median, type BenchContext, type Figure, type Question } from '../question.ts'

/** Typical questions of analysts, over project 3, which holds made-up events of 60 days. */
const QUERIES: Record<string, string> = {
  'count by day': `
    SELECT toDate(timestamp) AS day, count() FROM events WHERE project_id = 3 GROUP BY day ORDER BY day`,
  'count by day of one event': `
    SELECT toDate(timestamp) AS day, count() FROM events
    WHERE project_id = 3 AND event = '$pageview' GROUP BY day ORDER BY day`,
  'people by week': `
    SELECT toStartOfWeek(timestamp) AS week, uniqExact(person_id) FROM events
    WHERE project_id = 3 GROUP BY week ORDER BY week`,
  'by promoted column': `
    SELECT browser, count() FROM events WHERE project_id = 3 GROUP BY browser ORDER BY 2 DESC`,
  'by unpromoted property': `
    SELECT JSONExtractString(properties, 'plan') AS plan, count() FROM events
    WHERE project_id = 3 AND timestamp > now() - INTERVAL 7 DAY GROUP BY plan`,
  'sum of a property': `
    SELECT toDate(timestamp) AS day, sum(JSONExtractFloat(properties, 'amount')) FROM events
    WHERE project_id = 3 AND event = 'event 3' AND timestamp > now() - INTERVAL 30 DAY GROUP BY day`,
  funnel: `
    SELECT level, count() FROM (
      SELECT person_id, windowFunnel(86400)(toDateTime(timestamp), event = 'event 1', event = 'event 2') AS level
      FROM events WHERE project_id = 3 AND event IN ('event 1', 'event 2') GROUP BY person_id) GROUP BY level`,
  retention: `
    SELECT sum(r[1]), sum(r[2]), sum(r[3]) FROM (
      SELECT person_id, retention(toDate(timestamp) = today() - 14, toDate(timestamp) = today() - 7,
                                  toDate(timestamp) = today() - 1) AS r
      FROM events WHERE project_id = 3 AND event = '$pageview' GROUP BY person_id)`,
  'one session': `
    SELECT timestamp, event, current_url FROM events
    WHERE project_id = 3 AND session_id = 'session-777' ORDER BY timestamp`,
  'events of one person': `
    SELECT timestamp, event FROM events WHERE project_id = 3 AND distinct_id = 'person-4242' ORDER BY timestamp DESC`
}

/** How long ten typical queries take over millions of rows. */
export const query: Question = {
  name: 'query',
  asks: 'ten typical queries of analysts over 10 million rows (half a million with --quick)',
  async answer (context) {
    const rows = context.quick ? 500_000 : 10_000_000
    await fill(context, rows)
    const figures: Figure[] = []
    for (const [name, sql] of Object.entries(QUERIES)) {
      const timesMs: number[] = []
      for (let repetition = 0; repetition < 3; repetition++) {
        const startedAt = performance.now()
        await context.stack.select(sql)
        timesMs.push(performance.now() - startedAt)
      }
      figures.push({ name, value: median(timesMs), unit: 'ms' })
    }
    return figures
  }
}

/** Makes rows inside ClickHouse, million by million; sending them would measure something else. */
async function fill ({ stack }: BenchContext, rows: number): Promise<void> {
  const STEP = 1_000_000
  for (let from = 0; from < rows; from += STEP) {
    await stack.clickhouse.command({
      query: `
        INSERT INTO events (project_id, uuid, event, distinct_id, timestamp, received_at, properties, session_id,
                            current_url, host, browser, os)
        SELECT 3, generateUUIDv4(), if(number % 2 = 0, '$pageview', concat('event ', toString(number % 10))),
               concat('person-', toString(cityHash64(number) % 100000)),
               now64(3) - toIntervalSecond(cityHash64(number, 1) % 5184000), now64(3),
               concat('{"plan":"', if(number % 5 = 0, 'pro', 'free'), '","amount":', toString(number % 1000),
                      ',"$browser":"Chrome","text":"', hex(cityHash64(number, 2)), '"}'),
               concat('session-', toString(intDiv(number, 20))), concat('https://shop.example.com/', toString(number % 999)),
               'shop.example.com', ['Chrome', 'Safari', 'Firefox'][number % 3 + 1], ['Windows', 'iOS'][number % 2 + 1]
        FROM numbers({from:UInt64}, {step:UInt64})`,
      query_params: { from, step: Math.min(STEP, rows - from) }
    })
  }
}
