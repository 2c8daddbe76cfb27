import { fillTable } from '../load/fill-table.ts'
import { median, type Figure, type Question } from '../question.ts'

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
    SELECT timestamp, event FROM events WHERE project_id = 3 AND distinct_id = 'person-4242-0f3c9a' ORDER BY timestamp DESC`
}

/** How long ten typical queries take over millions of rows. */
export const query: Question = {
  name: 'query',
  asks: 'ten typical queries of analysts over 10 million rows (half a million with --quick)',
  async answer (context) {
    const rows = context.quick ? 500_000 : 10_000_000
    await fillTable(context.stack, rows)
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
