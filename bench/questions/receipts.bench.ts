import { fillBeside, FILLED_PROJECT, fillStatement, NATIVE_UUID, SIDE } from '../load/fill-table.ts'
import { type BenchContext, type Figure, median, percentile, type Question } from '../question.ts'

/** What a receipt by uuid may take, at 30 million rows. */
const TARGET_P99_MS = 500

/**
 * How long a receipt takes: uuids of version 7, version 4, version 4 with the time of the event, and distinct
 * ids, as frequent as their events and each as often.
 */
export const receipts: Question = {
  name: 'receipts',
  asks: 'how long GET .../receipt takes at 30 million rows (half a million with --quick)',
  isLong: true,
  async answer (context) {
    const startedAt = performance.now()
    await fillBeside(context.stack, context.quick ? 500_000 : 30_000_000, FILL)
    const fillSeconds = (performance.now() - startedAt) / 1000
    await context.stack.sql`INSERT INTO projects (id, name) VALUES (${FILLED_PROJECT}, 'filled') ON CONFLICT DO NOTHING`
    const count = context.quick ? 150 : 300
    const version7 = await pick(context, "substring(toString(uuid), 15, 1) = '7'", count)
    const version4 = await pick(context, "substring(toString(uuid), 15, 1) = '4'", count)
    const persons = await pick(context, 'cityHash64(distinct_id) % 100 = 7', count, 'LIMIT 1 BY distinct_id')
    return [
      { name: 'filling and merging', value: fillSeconds, unit: 's' },
      ...await ask(context, 'receipt, version 7', version7.map(({ uuid }) => `events/${uuid}/receipt/`)),
      ...await ask(context, 'receipt, version 4', version4.map(({ uuid }) => `events/${uuid}/receipt/`)),
      ...await ask(context, 'receipt, version 4 and time', version4.map(({ uuid, time }) => `events/${uuid}/receipt/?timestamp=${time}`)),
      ...await ask(context, 'receipts of a distinct id, of an event', version7.map(({ person }) => `receipts/?distinct_id=${person}`)),
      ...await ask(context, 'receipts of a distinct id, any', persons.map(({ person }) => `receipts/?distinct_id=${person}`))
    ]
  }
}

interface Picked {
  uuid: string
  person: string
  time: string
}

async function pick (
  { stack }: BenchContext, where: string, count: number, once = ''
): Promise<Picked[]> {
  return await stack.select<Picked>(`
    SELECT uuid, distinct_id AS person, formatDateTime(timestamp, '%Y-%m-%dT%H:%i:%SZ') AS time FROM events
    WHERE project_id = ${FILLED_PROJECT} AND ${where} ORDER BY cityHash64(uuid, now()) ${once} LIMIT ${count}`)
}

/** One after the other, as people ask. */
async function ask ({ stack }: BenchContext, name: string, paths: readonly string[]): Promise<Figure[]> {
  const timesMs: number[] = []
  for (const path of paths) {
    const startedAt = performance.now()
    const response = await fetch(`${stack.url}/api/projects/${FILLED_PROJECT}/${path}`, {
      headers: { authorization: `Bearer ${stack.personalApiKey}` }
    })
    const answer = await response.json() as { fate?: string, results?: unknown[] }
    if (answer.fate !== 'stored' && (answer.results ?? []).length === 0) throw new Error(`${path}: ${JSON.stringify(answer)}`)
    timesMs.push(performance.now() - startedAt)
  }
  return [
    { name: `${name}, median`, value: median(timesMs), unit: 'ms' },
    { name: `${name}, p99`, value: percentile(timesMs, 0.99), unit: 'ms', target: { atMost: TARGET_P99_MS } }
  ]
}

/**
 * Rows of 60 days for look-ups of single events: a million distinct ids of which few have most of the events, one event
 * in ten with a uuid of version 4, one in ten of another project, the days before now fuller than those of two months
 * ago.
 */
const FILL = fillStatement({
  table: SIDE,
  project: '{project:UInt32} + if(cityHash64(number, 9) % 10 = 0, 1 + cityHash64(number, 8) % 50, 0)',
  person: 'toString(toUInt32(pow(1000000, (cityHash64(number) % 1000000) / 1000000)))',
  uuid: `if(number % 10 = 7, generateUUIDv4(number), ${NATIVE_UUID})`
})
