import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { fillBeside, FILLED_PROJECT, NATIVE_UUID, SIDE } from '../load/fill-table.ts'
import { type BenchContext, type Figure, median, type Question } from '../question.ts'
import { cpuBetween, readTiers } from '../read-stack.ts'

const DAYS = 90
const SAMPLES = path.join(import.meta.dirname, '..', '..', 'docs', 'query', 'queries')
const TIMES = 3

/** A sample query of docs/query/queries or a definition, and what it may take on two quiet cores, in seconds. */
type Asked = { name: string, seconds?: number } & ({ sample: string } | { definition: object })

/** How long analysts wait, and what ClickHouse spends on it. */
export const analysts: Question = {
  name: 'analysts',
  asks: 'sample queries of a month and questions of 90 days, of 40 million events of 400,000 people (a million with --quick); the same once some events come weeks late',
  isLong: true,
  async answer (context) {
    const { stack, quick, events: rows = quick ? 1_000_000 : 40_000_000 } = context
    await stack.sql`INSERT INTO projects (id, name) VALUES (${FILLED_PROJECT}, 'filled') ON CONFLICT DO NOTHING`
    await fillBeside(stack, rows, fillStatement(rows))
    await stack.clickhouse.command({ query: MERGES, query_params: { project: FILLED_PROJECT } })
    const figures = [{ name: 'parts of a month', value: await countParts(context), unit: '' }, ...await askAll(context, '')]
    await stack.clickhouse.command({ query: STRAGGLERS, query_params: { project: FILLED_PROJECT } })
    return [...figures, ...await askAll(context, ', weeks late')]
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

/** The median of some times for each, after one that warms up; and sample queries without looking for copies. */
async function askAll (context: BenchContext, when: string): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const asked of QUESTIONS) {
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
  const times: Cost[] = []
  for (let run = 0; run <= TIMES; run++) {
    const [before, startedAt] = [readTiers(supervisor), performance.now()]
    await ask(context, asked, settings)
    const seconds = (performance.now() - startedAt) / 1000
    times.push({ seconds, cpuSeconds: cpuBetween(before, readTiers(supervisor)).clickhouse / 1e6 })
  }
  const medianOf = (read: (cost: Cost) => number): number => median(times.slice(1).map(read))
  return { seconds: medianOf((cost) => cost.seconds), cpuSeconds: medianOf((cost) => cost.cpuSeconds) }
}

/** Over the API, with the login and limits of analysts. */
async function ask ({ stack }: BenchContext, asked: Asked, settings: string): Promise<void> {
  const [where, body] = 'definition' in asked
    ? [`projects/${FILLED_PROJECT}/questions/answer`, { definition: asked.definition }]
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

/**
 * Events in the order in which they happened, as parts hold them, 1 in 100 of them up to three days late: 43 % of one
 * name, 7 % of each of eight. A visit has some twenty events.
 */
function fillStatement (rows: number): string {
  const time = `now64(3) - toIntervalMillisecond(toInt64((1 - number / ${rows}) * ${DAYS} * 86400000 + if(cityHash64(number, 5) % 100 = 0, cityHash64(number, 6) % 259200000, 0)))`
  return eventsFrom(SIDE, time, 'number', 'numbers({from:UInt64}, {step:UInt64})')
}

function eventsFrom (table: string, time: string, number: string, source: string): string {
  // The person is given, because computing it for each row would take longer than everything else.
  return `
  INSERT INTO ${table} (project_id, person_id, uuid, event, distinct_id, timestamp, received_at, inserted_at, properties, session_id, pathname)
  WITH ${time} AS time, concat('person-', toString(cityHash64(intDiv(${number}, 20)) % 400000), '-0f3c9a') AS person,
       bitOr(bitShiftLeft(toUInt64(toUnixTimestamp64Milli(time)), 16), 28672 + cityHash64(${number}, 3) % 4096) AS first,
       bitOr(bitShiftLeft(toUInt64(2), 62), bitShiftRight(cityHash64(${number}, 4), 2)) AS second, cityHash64(${number}, 7) % 100 AS kind
  SELECT {project:UInt32}, reinterpretAsUUID(sipHash128(person)), ${NATIVE_UUID},
         if(kind < 43, '$pageview', concat('event ', toString(intDiv(kind - 43, 7)))), person, time, time, time,
         concat('{"plan":"', if(number % 5 = 0, 'pro', 'free'), '","amount":', toString(number % 1000), ',"$browser":"Chrome","text":"', hex(cityHash64(number, 2)), '"}'),
         concat('session-', toString(intDiv(${number}, 20))), concat('/', toString(number % 999))
  FROM ${source}`
}

/** 10,000 events that come up to 60 days late, so that a part of each month has some of all its days. */
const STRAGGLERS = eventsFrom('events', 'now64(3) - toIntervalMillisecond(cityHash64(number, 8) % 5184000000)', '(number + 1000000000)', 'numbers(10000)')

/** One person in twenty was merged into another. */
const MERGES = `
  INSERT INTO person_overrides (project_id, old_person_id, person_id, version, is_deleted)
  SELECT {project:UInt32}, reinterpretAsUUID(sipHash128(concat('person-', toString(number), '-0f3c9a'))),
         reinterpretAsUUID(sipHash128(concat('person-', toString(number + 1), '-0f3c9a'))), 1, 0
  FROM numbers(0, 400000) WHERE number % 20 = 0`
