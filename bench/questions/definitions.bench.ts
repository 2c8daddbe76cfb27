import { percentile, type BenchContext, type Figure, type Question } from '../question.ts'

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

/** How long a page of 100 takes of thousands of definitions, from the first page to the last. */
export const definitions: Question = {
  name: 'definitions',
  asks: 'a page of 100 of 10,000 event and property definitions (2,000 with --quick), read to the end by following next',
  async answer (context) {
    await plant(context)
    const figures: Figure[] = []
    for (const [name, list] of Object.entries(LISTS)) {
      const timesMs = await walk(context, list)
      figures.push({ name: `${name} p50`, value: percentile(timesMs, 0.5), unit: 'ms' })
      figures.push({ name: `${name} p99`, value: percentile(timesMs, 0.99), unit: 'ms' })
    }
    return figures
  }
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
