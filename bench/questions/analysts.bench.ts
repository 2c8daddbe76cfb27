import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { fillBeside, FILLED_PROJECT, fillStatement, NATIVE_UUID, SIDE } from '../load/fill-table.ts'
import { createEventSource } from '../load/prepare-events.ts'
import { type BenchContext, type Figure, median, percentile, type Question, repeat } from '../question.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { cpuBetween, readTiers } from '../read-stack.ts'
import { sendAndFind } from './visible.bench.ts'

const DAYS = 90
/** Events that come up to 60 days late, so that a part of each month has some of all its days. */
const STRAGGLERS = 10_000
const SAMPLES = path.join(import.meta.dirname, '..', '..', 'docs', 'query', 'queries')

/** A sample query of docs/query/queries or a definition, and what it may take on two quiet cores, in seconds. */
type Asked = { name: string, seconds?: number } & ({ sample: string } | { definition: object, cell?: object })

/** How long analysts wait, and what ClickHouse spends on it. */
export const analysts: Question = {
  name: 'analysts',
  asks: 'sample queries of a month and questions of 90 days, of 40 million events of 400,000 people (a million with --quick); the same once some events come weeks late',
  isLong: true,
  async answer (context) {
    const { stack, quick, events: rows = quick ? 1_000_000 : 40_000_000 } = context
    await stack.sql`INSERT INTO projects (id, name) VALUES (${FILLED_PROJECT}, 'filled') ON CONFLICT DO NOTHING`
    const late = 'if(cityHash64(number, 5) % 100 = 0, cityHash64(number, 6) % 259200000, 0)'
    await fillBeside(stack, rows, fillFrom(SIDE, `(1 - number / ${rows}) * ${DAYS} * 86400000 + ${late}`))
    await stack.clickhouse.command({ query: MERGES, query_params: { project: FILLED_PROJECT } })
    const [active, loyal] = [await findCohort(context, 'Active', 1), await findCohort(context, 'Loyal', 6)]
    const asked = [...QUESTIONS, ...askFromNumberToPeople(active.id, loyal.id)]
    const figures: Figure[] = [
      { name: 'parts of a month', value: await countParts(context), unit: '' },
      { name: `cohort of ${active.people.toLocaleString('en')} by behavior`, value: active.seconds, unit: 's', target: { atMost: 10 } },
      { name: `cohort of ${loyal.people.toLocaleString('en')} by behavior`, value: loyal.seconds, unit: 's' },
      await measureBesideRefresh(context, active.id),
      ...await askAll(context, asked, '')
    ]
    await stack.clickhouse.command({
      query: fillFrom('events', 'cityHash64(number, 8) % 5184000000'), query_params: { project: FILLED_PROJECT, from: rows, step: STRAGGLERS }
    })
    return [...figures, ...await askAll(context, asked, ', weeks late')]
  }
}

const TREND = { kind: 'trend', version: 1, range: { last: DAYS, unit: 'day' }, series: [{ event: '$pageview', measure: 'events' }] }
const QUESTIONS: readonly Asked[] = [
  { name: 'trend', sample: 'trend', seconds: 1 },
  { name: 'funnel', sample: 'funnel', seconds: 1.5 },
  { name: 'retention', sample: 'retention', seconds: 4 },
  { name: 'sessions', sample: 'sessions', seconds: 4 },
  { name: 'question: trend of 90 days', definition: TREND },
  { name: 'question: its people', definition: { ...TREND, series: [{ event: '$pageview', measure: 'people' }] } },
  { name: 'question: by a property', definition: { ...TREND, series: [{ event: 'event 1', measure: 'events' }], breakdown: { property: 'plan' } } },
  {
    name: 'question: funnel of four steps, 30 days',
    definition: { kind: 'funnel', version: 1, range: { last: 30, unit: 'day' }, steps: ['$pageview', 'event 1', 'event 3', 'event 5'].map((event) => ({ event })) }
  },
  {
    name: 'question: retention of 8 weeks',
    definition: { kind: 'retention', version: 1, range: { last: 8, unit: 'week' }, start: { event: '$pageview' }, returning: { event: null } }
  }
]

/** A trend by cohorts, the persons behind one of its numbers, and paths. */
function askFromNumberToPeople (active: number, loyal: number): Asked[] {
  const byCohort = { ...TREND, range: { last: 30, unit: 'day' }, breakdown: { type: 'cohort', cohorts: [active, loyal] } }
  const last = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10)
  const people = { ...TREND, series: [{ event: '$pageview', measure: 'people' }] }
  return [
    { name: 'question: trend of 30 days by two cohorts', definition: byCohort, seconds: 2 },
    { name: 'question: trend of 90 days in a cohort', definition: { ...TREND, series: [{ event: '$pageview', measure: 'events', where: [{ type: 'cohort', value: loyal, operator: 'in' }] }] }, seconds: 2 },
    { name: 'persons behind a day', definition: people, cell: { start: last }, seconds: 2 },
    { name: 'persons behind a total of 90 days', definition: people, cell: { start: null }, seconds: 2 },
    { name: 'question: paths from an event, 30 days', definition: { kind: 'paths', version: 1, range: { last: 30, unit: 'day' }, from: { event: 'event 1' } }, seconds: 6 },
    { name: 'question: paths to an event, 90 days', definition: { kind: 'paths', version: 1, range: { last: DAYS, unit: 'day' }, to: { event: 'event 1' } } }
  ]
}

/** `seconds` is how long its members took to find. */
interface FoundCohort { id: number, people: number, seconds: number }

/** Makes a cohort of who did an event that often, and waits for its members. */
async function findCohort ({ stack }: BenchContext, name: string, times: number): Promise<FoundCohort> {
  const did = { type: 'behavioral', value: 'performed_event_multiple', key: 'event 1', operator: 'gte', operator_value: times, time_value: DAYS, time_interval: 'day' }
  const response = await fetch(`${stack.url}/api/projects/${FILLED_PROJECT}/cohorts/`, {
    method: 'POST', body: JSON.stringify({ name, filters: { type: 'AND', values: [did] } }),
    headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' }
  })
  const { id } = await response.json() as { id: number }
  const find = async (): Promise<{ people: string, took: number, error: string }[]> =>
    await stack.sql`SELECT people, took, error FROM cohort_refreshes WHERE cohort_id = ${id} AND (refreshed_at IS NOT NULL OR error <> '')`
  await waitFor(async () => (await find()).length > 0, { timeoutMs: 180_000, everyMs: 500 })
  const [found] = await find()
  if (found === undefined || found.error !== '') throw new Error(`${name}: ${found?.error}`)
  return { id, people: Number(found.people), seconds: found.took / 1000 }
}

const PROBES_MS = 15_000
const REFRESHES = 3

/** How soon an event is visible while the members of a cohort are found again. */
async function measureBesideRefresh (context: BenchContext, cohort: number): Promise<Figure> {
  const { stack } = context
  const nextEvent = createEventSource(7000)
  const probeUntil = async (isOver: () => Promise<boolean>): Promise<number[]> => {
    const delaysMs: number[] = []
    do delaysMs.push(await sendAndFind(context, nextEvent() as Parameters<typeof sendAndFind>[1]))
    while (!await isOver())
    return delaysMs
  }
  const startedAt = performance.now()
  const alone = await probeUntil(async () => performance.now() - startedAt > PROBES_MS)
  const beside: number[] = []
  for (let refresh = 0; refresh < REFRESHES; refresh++) {
    const [{ now } = { now: '' }] = await stack.sql<{ now: string }[]>`SELECT now()::text AS now`
    await fetch(`${stack.url}/api/projects/${FILLED_PROJECT}/cohorts/${cohort}/refresh`, {
      method: 'POST', headers: { authorization: `Bearer ${stack.personalApiKey}` }
    })
    beside.push(...await probeUntil(async () => (await stack.sql`
      SELECT FROM cohort_refreshes WHERE cohort_id = ${cohort} AND refreshed_at > ${now}::timestamptz`).length > 0))
  }
  return {
    name: `event visible beside refreshes of a cohort, p99 of ${beside.length}`, value: percentile(beside, 0.99), unit: 'ms',
    reference: { name: 'alone', value: percentile(alone, 0.99) }, target: { atMost: 1.2 }
  }
}

/** Each as it is; sample queries also without looking for copies. */
async function askAll (context: BenchContext, questions: readonly Asked[], when: string): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const asked of questions) {
    const { name, seconds } = asked
    const exact = await measure(context, asked, '')
    figures.push({ name: `${name}${when}`, value: exact.seconds, unit: 's', ...seconds !== undefined && { target: { atMost: seconds } } })
    if (!('sample' in asked) || asked.sample === 'retention') {
      figures.push({ name: `${name}${when}, cpu`, value: exact.cpuSeconds, unit: 's' })
      continue
    }
    const plain = await measure(context, asked, ' SETTINGS final = 0')
    figures.push({
      name: `${name}${when}, cpu`, value: exact.cpuSeconds, unit: 's',
      reference: { name: 'without final', value: plain.cpuSeconds }, target: { atMost: 1.1 }
    })
  }
  return figures
}

interface Cost {
  /** As long as the analyst waits. */
  seconds: number
  /** Of ClickHouse. */
  cpuSeconds: number
}

async function measure (context: BenchContext, asked: Asked, settings: string): Promise<Cost> {
  const supervisor = context.stack.supervisor.pid as number
  const costs = await repeat(context, async (): Promise<Cost> => {
    const [before, startedAt] = [readTiers(supervisor), performance.now()]
    await ask(context, asked, settings)
    const seconds = (performance.now() - startedAt) / 1000
    return { seconds, cpuSeconds: cpuBetween(before, readTiers(supervisor)).clickhouse / 1e6 }
  })
  const medianOf = (figure: keyof Cost): number => median(costs.map((cost) => cost[figure]))
  return { seconds: medianOf('seconds'), cpuSeconds: medianOf('cpuSeconds') }
}

/** Over the API, with the login and limits of analysts. */
async function ask ({ stack }: BenchContext, asked: Asked, settings: string): Promise<void> {
  const [where, body] = 'definition' in asked
    ? [`projects/${FILLED_PROJECT}/questions/${asked.cell === undefined ? 'answer' : 'persons'}`, { definition: asked.definition, cell: asked.cell }]
    : ['sql/', { query: `${await readFile(path.join(SAMPLES, `${asked.sample}.sql`), 'utf8')}${settings}`, parameters: parameters() }]
  const response = await fetch(`${stack.url}/api/${where}`, {
    method: 'POST', body: JSON.stringify(body),
    headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' }
  })
  const answer = await response.text()
  if (response.status !== 200 || answer.includes('{"error":')) throw new Error(`${asked.name}: ${answer.slice(-500)}`)
}

/** The last whole month. */
function parameters (): Record<string, string> {
  const now = new Date()
  const [from = '', to = ''] = [1, 0].map((before) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - before)).toISOString().slice(0, 10))
  return {
    project: String(FILLED_PROJECT), timezone: 'UTC', from, to, event: '$pageview', first: '$pageview', second: 'event 1', third: 'event 3'
  }
}

async function countParts ({ stack }: BenchContext): Promise<number> {
  const months = await stack.select<{ parts: number }>(
    "SELECT toUInt32(count()) AS parts FROM system.parts WHERE database = currentDatabase() AND table = 'events' AND active GROUP BY partition")
  return median(months.map(({ parts }) => parts))
}

/** 43 % of one name, 7 % of most others. */
const EVENT = `if(cityHash64(number, 7) % 100 < 43, '$pageview',
  concat('event ', toString(intDiv(cityHash64(number, 7) % 100 - 43, 7))))`

/** Twenty events one after the other are of one visit, with a session of its own. */
function fillFrom (table: string, sinceMs: string): string {
  return fillStatement({
    table,
    sinceMs,
    event: EVENT,
    project: '{project:UInt32}',
    person: 'toString(cityHash64(intDiv(number, 20)) % 400000)',
    uuid: NATIVE_UUID
  })
}

/** One person in twenty was merged into another. */
const MERGES = `
  INSERT INTO person_overrides (project_id, old_person_id, person_id, version, is_deleted)
  SELECT {project:UInt32}, reinterpretAsUUID(sipHash128(concat('person-', toString(number), '-0f3c9a'))),
         reinterpretAsUUID(sipHash128(concat('person-', toString(number + 1), '-0f3c9a'))), 1, 0
  FROM numbers(0, 400000) WHERE number % 20 = 0`
