import { fillTable } from '../load/fill-table.ts'
import { median, percentile, type BenchContext, type Figure, type Question } from '../question.ts'

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

const DEFINITIONS = 10_000
const QUICK_DEFINITIONS = 2000
/** A project of its own: the others' definitions are part of other questions. */
const PROJECT = 4

const LISTS: Record<string, string> = {
  'events by name': 'event_definitions/?limit=100',
  'events by volume': 'event_definitions/?limit=100&ordering=-volume_30_day',
  'events, search': 'event_definitions/?limit=100&search=1%20of',
  'properties by name': 'property_definitions/?limit=100',
  'properties, seen on two events first': 'property_definitions/?limit=100&event_names=["event%201%20of%20many","event%202%20of%20many"]'
}

/** How long ten typical queries take over millions of rows, and pages of thousands of definitions. */
export const query: Question = {
  name: 'query',
  asks: 'ten typical queries of analysts over 10 million rows (half a million with --quick), and pages of 100 of 10,000 definitions (2,000 with --quick)',
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
    return [...figures, ...await readDefinitions(context)]
  }
}

/** How long a page of 100 takes of thousands of definitions, from the first page to the last by following `next`. */
async function readDefinitions (context: BenchContext): Promise<Figure[]> {
  await plant(context)
  const figures: Figure[] = []
  for (const [name, list] of Object.entries(LISTS)) {
    const timesMs = await walk(context, list)
    figures.push({ name: `definitions, ${name} p50`, value: percentile(timesMs, 0.5), unit: 'ms' })
    figures.push({ name: `definitions, ${name} p99`, value: percentile(timesMs, 0.99), unit: 'ms' })
  }
  return figures
}

async function plant ({ stack: { sql }, quick }: BenchContext): Promise<void> {
  const last = (quick ? QUICK_DEFINITIONS : DEFINITIONS) - 1
  await sql`INSERT INTO projects (id, name) VALUES (${PROJECT}, 'definitions') ON CONFLICT DO NOTHING`
  await sql`
    INSERT INTO event_definitions (project_id, name, volume_30_day, last_seen_at)
    SELECT ${PROJECT}::integer, 'event ' || n || ' of many', n * 7919 % 1000, now() FROM generate_series(0, ${last}::integer) AS n
    ON CONFLICT DO NOTHING`
  await sql`
    INSERT INTO property_definitions (project_id, type, name, property_type)
    SELECT ${PROJECT}::integer, 'event', 'property ' || n, 'Numeric' FROM generate_series(0, ${last}::integer) AS n
    ON CONFLICT DO NOTHING`
  await sql`
    INSERT INTO event_properties (project_id, event, property)
    SELECT ${PROJECT}::integer, 'event ' || e || ' of many', 'property ' || n
    FROM generate_series(1, 20) AS e, generate_series(0, ${last}::integer, 5) AS n
    ON CONFLICT DO NOTHING`
}

/** @returns how long each page took, over some walks from the first page to the last, in milliseconds. */
async function walk ({ stack, repetitions }: BenchContext, list: string): Promise<number[]> {
  const timesMs: number[] = []
  const headers = { authorization: `Bearer ${stack.personalApiKey}` }
  for (let repetition = 0; repetition <= repetitions; repetition++) {
    for (let next: string | null = `${stack.url}/api/projects/${PROJECT}/${list}`; next !== null;) {
      const startedAt = performance.now()
      const response: Response = await fetch(next, { headers })
      const page = await response.json() as { next: string | null }
      if (response.status !== 200) throw new Error(`${next} was answered with ${response.status}`)
      // The first walk warms up.
      if (repetition > 0) timesMs.push(performance.now() - startedAt)
      next = page.next
    }
  }
  return timesMs
}
