/** Every question is answered by ClickHouse as a plain computation answers it; `npm run check:questions` asks 2,000. */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { createRandom, pickOne } from '../../test/support/random.ts'
import { expandCohorts, readCohort } from '../../engines/questions/cohort-definition.ts'
import { compileCohort, takesCopies } from '../../engines/questions/cohort-sql.ts'
import { resolveRange } from '../../engines/questions/calendar.ts'
import { readSeen } from './answer-question.ts'
import { type Cell, compilePersons, compileQuestion } from '../../engines/questions/compile-question.ts'
import type { Question } from '../../engines/questions/question.ts'
import { readQuestion } from '../../engines/questions/read-question.ts'
import { type Answer, type AnswerRow, shapeAnswer, tagOfPart, type TrendLine } from '../../engines/questions/shape-answer.ts'
import { answerPlainly } from '../../engines/questions/testing/plain-answer.ts'
import type { PlainEvent, PlainQuestion } from '../../engines/questions/testing/plain-question.ts'
import { findMembersPlainly, type PlainPerson, randomCohort } from '../../engines/questions/testing/plain-cohort.ts'
import { COHORTS, randomEvent, randomPersonProperties, randomQuestion, ZONES } from '../../engines/questions/testing/random-questions.ts'

const QUESTIONS = Number(process.env.MILLRACE_TEST_QUESTIONS ?? (process.env.MILLRACE_TEST_LONG === '1' ? 2000 : 20))
/** Random cohorts; ten thousand where 2,000 questions are asked. */
const RANDOM_COHORTS = QUESTIONS * (QUESTIONS < 2000 ? 2 : 5)
const EVENTS = 1200

const { url, client } = await createTestClickHouse(t)
// Whose profile counts duplicates once.
const analyst = connectClickHouse({ url: Object.assign(new URL(url), { username: 'analyst', password: 'analyst' }).href })
t.teardown(() => analyst.close())

const NOW = Date.parse('2026-06-01T12:00:00Z')
const SEED = Number(process.env.MILLRACE_TEST_SEED ?? 44)
const random = createRandom(SEED)

/**
 * Events of a project, some stored twice, and persons, every third of which was merged into another one; some of these
 * no longer are.
 */
async function plant (
  projectId: number, changes: readonly string[]
): Promise<Pick<Planted, 'events' | 'persons' | 'lists'>> {
  const made = Array.from({ length: EVENTS }, () => randomEvent(random, changes))
  const rows = toRows(projectId, made)
  await client.insert({ table: 'events', values: rows, format: 'JSONEachRow' })
  // Not merged away yet: another insert, and later than the first.
  await client.insert({ table: 'events', values: rows.filter((_, index) => index % 7 === 0), format: 'JSONEachRow' })
  const idsOf = `SELECT distinct_id, any(toString(person_id)) FROM events WHERE project_id = ${projectId} GROUP BY 1`
  const ids = new Map((await select(idsOf)).map(([id, person]) => [String(id), String(person)]))
  const merged = [...ids.keys()].sort().filter((_, index) => index % 3 === 0)
  const into = new Map(merged.map((id, index) => [id, [...ids.keys()].sort()[index * 3 % 5 + 1]!]))
  const overrides = merged.filter((id) => into.get(id) !== id).map((id) => ({
    project_id: projectId, old_person_id: ids.get(id), person_id: ids.get(into.get(id)!), version: 2, is_deleted: 0
  }))
  const isUndone = (_: unknown, index: number): boolean => index % 4 === 0
  const values = [...overrides, ...overrides.filter(isUndone).map((row) => ({ ...row, version: 3, is_deleted: 1 }))]
  await client.insert({ table: 'person_overrides', format: 'JSONEachRow', values })
  for (const { old_person_id: undone } of values.slice(overrides.length)) {
    into.delete([...ids].find(([, person]) => person === undone)![0])
  }
  const persons = await plantPersons(projectId, [...ids.values()].sort())
  const events = made.map(({ event, distinctId, at, isBot, weight, groups, properties }) => {
    const person = ids.get(into.get(distinctId) ?? distinctId)!
    const personProperties = persons.get(person) ?? {}
    return { event, at, isBot, weight, groups, properties, person, personProperties, cohorts: new Set<number>() }
  })
  const byPerson = Map.groupBy(events, ({ person }) => person)
  const known = [...new Set([...byPerson.keys(), ...persons.keys()])].map((id) =>
    ({ id, properties: persons.get(id) ?? null, events: byPerson.get(id) ?? [] }))
  const lists = new Map<number, Set<string>>()
  const survivors = new Map([...into].map(([id, target]) => [ids.get(id)!, ids.get(target)!]))
  for (const id of COHORTS) {
    const members = await plantCohort(projectId, id, known)
    lists.set(id, new Set([...members].map((member) => survivors.get(member) ?? member)))
  }
  for (const { person, cohorts } of events) for (const [id, list] of lists) if (list.has(person)) cohorts.add(id)
  return { events, persons: known, lists }
}

function toRows (projectId: number, made: readonly ReturnType<typeof randomEvent>[]) {
  return made.map(({ distinctId, at, receivedAt, isBot, weight, properties, ...event }) => ({
    ...event, uuid: crypto.randomUUID(), project_id: projectId, distinct_id: distinctId,
    timestamp: text(at), received_at: text(receivedAt),
    is_bot: isBot, sample_weight: weight, properties: JSON.stringify(properties)
  }))
}

/** Some persons as a list, with an older version, and a newer one that is not whole. */
async function plantCohort (projectId: number, id: number, persons: readonly PlainPerson[]): Promise<Set<string>> {
  const versions = [7, 8, 9].map((version) => ({ version, members: persons.filter(() => random() < 0.3) }))
  for (const { version, members } of versions) {
    const size = members.length + (version === 9 ? 2 : 1)
    const rows = ['00000000-0000-0000-0000-000000000000', ...members.map((person) => person.id)].map((person) =>
      ({ project_id: projectId, cohort_id: id, version, person_id: person, size }))
    await client.insert({ table: 'cohort_members', values: rows, format: 'JSONEachRow' })
  }
  return new Set(versions[1]!.members.map((person) => person.id))
}

/**
 * Two of three persons have a row, also some that were merged into others; of each an older copy is stored as well, and
 * some are deleted.
 */
async function plantPersons (projectId: number, ids: readonly string[]): Promise<Map<string, Record<string, unknown>>> {
  const found = new Map<string, Record<string, unknown>>()
  const rows = ids.filter((_, index) => index % 3 !== 2).flatMap((id, index) => {
    const properties = randomPersonProperties(random)
    const isDeleted = index % 5 === 4
    if (!isDeleted) found.set(id, properties)
    return [randomPersonProperties(random), properties].map((copy, version) => ({
      project_id: projectId, person_id: id, properties: JSON.stringify(copy), is_identified: true,
      created_at: text(NOW), version, is_deleted: isDeleted ? version : 0
    }))
  })
  await client.insert({ table: 'persons', values: rows.filter(({ version }) => version === 1), format: 'JSONEachRow' })
  await client.insert({ table: 'persons', values: rows.filter(({ version }) => version === 0), format: 'JSONEachRow' })
  return found
}

function text (at: number): string {
  return new Date(at).toISOString().slice(0, -1).replace('T', ' ')
}

async function select (query: string): Promise<AnswerRow[]> {
  const result = await analyst.query({ query, format: 'JSONCompactEachRow' })
  return await result.json<AnswerRow>()
}

interface Planted {
  timezone: string
  changes: readonly string[]
  projectId: number
  events: PlainEvent[]
  persons: PlainPerson[]
  lists: Map<number, Set<string>>
}

const projects: Planted[] = []
for (const zone of ZONES) {
  const projectId = projects.length + 1
  projects.push({ ...zone, projectId, ...await plant(projectId, zone.changes) })
}

/** A definition as people write it has the fields of its kind only. */
function toDefinition ({ kind, range, include_bots: bots, week_starts: week, ...of }: PlainQuestion): object {
  // Without it, weeks are the project's: on Sundays here.
  const shared = { kind, version: 1, range, include_bots: bots, ...week === 'monday' && { week_starts: week } }
  const { interval, series, compare, formula } = of
  const breakdown = of.breakdown?.type === 'cohort' ? { type: 'cohort', cohorts: of.breakdown.cohorts } : of.breakdown
  if (kind === 'trend') return { ...shared, interval, series, breakdown, compare, formula }
  if (kind === 'funnel') {
    const { steps, exclude, window, order, attribution } = of
    const split = breakdown === null ? null : { ...breakdown, ...breakdown.type !== 'cohort' && { attribution } }
    return { ...shared, steps, exclude, window, order, breakdown: split }
  }
  if (kind === 'lifecycle' || kind === 'stickiness') return { ...shared, interval, activity: of.activity }
  if (kind === 'paths') {
    const { anchor, isBackward, steps, names, nodes, minPeople, gap } = of.paths
    return { ...shared, [isBackward ? 'to' : 'from']: anchor, steps, events: names, nodes, min_people: minPeople, gap }
  }
  return { ...shared, interval, returns: of.returns, cohort: of.cohort, start: of.start, returning: of.returning }
}

interface Asked { projectId: number, timezone: string, now: number }

async function ask (definition: object, { projectId, timezone, now }: Asked): Promise<Answer> {
  const question = readQuestion(definition)
  const range = resolveRange(question, { timezone, weekStarts: 'sunday', now })
  const { first } = await readSeen({ clickhouse: client }, projectId, [])
  const rows = await select(compileQuestion(question, projectId, range))
  return shapeAnswer(question, { ...range, firstEvent: first! }, rows)
}

const tagOf = ({ part, value }: { part: string, value: string | null }): string => part === 'value' || part === 'cohort' ? `value ${value}` : part

/** An answer in the form of the plain one. */
function simplify (answer: Answer): unknown {
  const lines = (of: { points: { start: string }[], lines: TrendLine[] }) => ({
    starts: of.points.map(({ start }) => start),
    lines: of.lines.map((line) => ({
      series: line.series, tag: tagOf(line), total: line.total, values: line.values, leftOut: line.left_out
    }))
  })
  switch (answer.kind) {
    case 'trend': return { present: lines(answer), previous: answer.previous === null ? null : lines(answer.previous) }
    case 'funnel': {
      const [all, ...parts] = answer.parts.map(({ steps, ...part }) =>
        [tagOf(part), steps.map(({ people, median_ms: median, p90_ms: p90, times }) =>
          [people, median, p90, times.map((each) => each.people)])] as const)
      return { all: all?.[1], parts: Object.fromEntries(parts) }
    }
    case 'lifecycle':
      return {
        starts: answer.points.map(({ start }) => start),
        ...Object.fromEntries(answer.states.map(({ state, values }) => [state, values]))
      }
    case 'stickiness': return answer.counts.map(({ people }) => people)
    case 'paths':
      return { all: [answer.people, answer.paths], parts: Object.fromEntries(answer.edges.map(({ step, from, to, people, paths }) => [JSON.stringify([step, from ?? '', to ?? '']), [people, paths]])) }
    case 'retention':
      return Object.fromEntries(answer.cohorts.map(({ start, returned }) =>
        [start, returned.map(({ people }) => people)]))
  }
}

/** Lists of lines and parts in one order. */
function normal (value: unknown): string {
  return JSON.stringify(value, (key, each: unknown) => key === 'lines' && Array.isArray(each)
    ? each.map((line) => JSON.stringify(line)).sort()
    : key === 'parts'
      ? Object.entries(Object(each)).sort(([one], [other]) => one < other ? -1 : 1)
      : each)
}

t.test(`${QUESTIONS} random questions of seed ${SEED} are answered like a plain computation answers them`, async (t) => {
  const differences: object[] = []
  for (let index = 0; index < QUESTIONS; index++) {
    const { projectId, timezone, changes, events } = projects[index % projects.length]!
    const { question, now } = randomQuestion(random, changes)
    const definition = toDefinition(question)
    const found = normal(simplify(await ask(definition, { projectId, timezone, now })))
    const begins = Math.min(...events.map(({ at }) => at))
    const expected = normal(answerPlainly(question, { events, timezone, now, begins }))
    if (found !== expected) differences.push({ index, timezone, now: new Date(now), definition, found, expected })
  }
  if (differences.length > 0) t.comment(JSON.stringify(differences.slice(0, 3), null, 1))
  t.equal(differences.length, 0)
})

t.test(`${RANDOM_COHORTS} random cohorts have the members that a plain computation finds`, async (t) => {
  const differences: object[] = []
  let people = 0
  for (let index = 0; index < RANDOM_COHORTS; index++) {
    const { projectId, changes, persons, lists } = projects[index % projects.length]!
    const now = Date.parse(pickOne(changes, random)) + Math.floor((random() * 40 - 10) * 86_400_000)
    const cohorts = new Map([[1, randomCohort(random, COHORTS)]])
    cohorts.set(2, randomCohort(random, [1, ...COHORTS]))
    const filters = randomCohort(random, [2, 1, ...COHORTS])
    const node = expandCohorts(readCohort(filters), (id) => cohorts.get(id) ?? null)
    const query = `${compileCohort(node, { projectId, now, timezone: 'UTC' })} SETTINGS final = ${takesCopies(node) ? 0 : 1}`
    const found = (await select(query)).map(([person]) => String(person)).sort()
    const expected = findMembersPlainly(filters, persons, { cohorts, lists, now })
    people += found.length
    if (JSON.stringify(found) === JSON.stringify(expected)) continue
    differences.push({ index, now, filters, cohorts: [...cohorts], found: found.length, expected: expected.length })
  }
  if (differences.length > 0) t.comment(JSON.stringify(differences.slice(0, 2), null, 1))
  t.equal(differences.length, 0)
  t.ok(people > QUESTIONS)
})

const BERLIN = { projectId: 1, timezone: 'Europe/Berlin', weekStarts: 'monday', now: NOW } as const
const MARCH = { from: '2026-03-01', to: '2026-04-30' }
const LONG = { from: '2026-02-01', to: MARCH.to }
const shared = { version: 1, range: MARCH, include_bots: true }

async function askPage (name: string, parameters: Record<string, string>): Promise<AnswerRow[]> {
  const page = await readFile(path.join(import.meta.dirname, `../../docs/query/queries/${name}.sql`), 'utf8')
  const params = { project: 1, from: MARCH.from, to: '2026-05-01', timezone: BERLIN.timezone, ...parameters }
  const result = await analyst.query({
    query: page, format: 'JSONCompactEachRow', clickhouse_settings: { output_format_json_quote_64bit_integers: 0 },
    query_params: Object.fromEntries(Object.entries(params).filter(([param]) => page.includes(`{${param}:`)))
  })
  return await result.json<AnswerRow>()
}

t.test('they agree with the sample queries, where those ask the same', async (t) => {
  const series = ['events', 'people'].map((measure) => ({ event: 'cart', measure }))
  const counted = await ask({ kind: 'trend', ...shared, series }, BERLIN)
  const steps = ['seen', 'cart', 'paid'].map((event) => ({ event }))
  const walked = await ask({ kind: 'funnel', ...shared, window: { value: 1, unit: 'day' }, steps }, BERLIN)
  const returned = await ask({ kind: 'retention', ...shared, interval: 'day', start: { event: null } }, BERLIN)

  const trend = await askPage('trend', { event: 'cart' })
  const funnel = await askPage('funnel', { first: 'seen', second: 'cart', third: 'paid' })
  const retention = await askPage('retention', {})
  // More periods than a number of 64 bits has.
  const long = await ask({ kind: 'retention', ...shared, range: LONG, interval: 'day', start: { event: null } }, BERLIN)
  const longPage = await askPage('retention', { from: LONG.from })

  t.same(counted.kind === 'trend' && counted.points.map(({ start }, at) => [start, ...counted.lines.map(({ values }) => values[at])]), trend)
  t.same(walked.kind === 'funnel' && walked.parts[0]?.steps.map(({ name, people }, at) => [at + 1, name, people]), funnel)
  const people = (answer: Answer) => answer.kind === 'retention' && answer.cohorts.flatMap(({ start, returned: counts }) =>
    counts.flatMap(({ people }, later) => people === null || people === 0 ? [] : [[start, later, people]]))
  t.same(people(returned), retention)
  t.same(people(long), longPage)
  t.ok(trend.length === 61 && funnel.length === 3 && retention.length > 10)
})

t.test('days that have not begun have no value, unless events are stored of them', async (t) => {
  const range = { from: '2026-05-31', to: '2026-06-03' }
  const answer = await ask({ kind: 'trend', ...shared, range, series: [{ event: 'never sent' }] }, BERLIN)

  t.same(answer.kind === 'trend' && answer.lines[0]?.values, [0, 0, null, null])
  t.same(answer.kind === 'trend' && answer.points.map((point) => point.is_partial), [false, true, true, true])
})

t.test('hours of a day on which clocks change by half an hour have every event', async (t) => {
  const zone = { projectId: 901, timezone: 'Australia/Lord_Howe', now: Date.parse('2026-12-01T00:00:00Z') }
  for (const [from, to] of [['2026-04-04', '2026-04-06'], ['2026-10-03', '2026-10-05']] as const) {
    // Two days of UTC, which are within three of the zone.
    const times = Array.from({ length: 2 * 24 * 6 }, (_, index) => Date.parse(from) + index * 600_000)
    const values = times.map((at) => ({ project_id: 901, uuid: crypto.randomUUID(), event: 'seen', timestamp: text(at) }))
    await client.insert({ table: 'events', values, format: 'JSONEachRow' })
    const definition = { kind: 'trend', ...shared, range: { from, to }, interval: 'hour', series: [{ event: 'seen' }] }
    const answer = await ask(definition, zone)

    const line = answer.kind === 'trend' ? answer.lines[0] : undefined
    t.equal(line?.total, times.length)
    t.equal(line?.values.reduce<number>((sum, value) => sum + (value ?? 0), 0), times.length, from)
  }
})

t.test('a funnel that nobody entered says so of everybody, broken down or not', async (t) => {
  for (const breakdown of [null, { property: 'plan' }, { property: 'plan', attribution: 'any' }]) {
    const steps = [{ event: 'never sent' }, { event: 'paid' }]
    const answer = await ask({ kind: 'funnel', ...shared, steps, breakdown }, BERLIN)
    const none = { people: 0, conversion: null, median_ms: null, p90_ms: null }
    t.match(answer, { parts: [{ part: 'all', steps: [none, none] }] })
  }
})

interface Picked { cell: Cell, number: number | null | undefined, read: (plain: any) => number | null | undefined }

/** Where a random number of an answer stands, also in a plain one that is not broken down. */
function pickCell (answer: Answer, question: Question): Picked | undefined {
  switch (answer.kind) {
    case 'trend': {
      const of = answer.previous !== null && random() < 0.3 ? 'previous' : 'present'
      const { lines, points } = of === 'present' || answer.previous === null ? answer : answer.previous
      if (lines.length === 0) return undefined
      const line = pickOne(lines.filter(({ series }) => question.kind === 'trend' && series < question.series.length), random)
      const at = random() < 0.2 ? -1 : Math.floor(random() * points.length)
      return {
        cell: { kind: 'trend', series: line.series, isPrevious: of === 'previous', start: points[at]?.start ?? null, tag: tagOfPart(line) },
        number: at === -1 ? line.total : line.values[at],
        read (plain) {
          const found = plain[of].lines.find(({ series }: TrendLine) => series === line.series)
          return at === -1 ? found.total : found.values[at]
        }
      }
    }
    case 'funnel': {
      const part = pickOne(answer.parts, random)
      const outcome = random() < 0.6 ? 'reached' : 'lost'
      const first = outcome === 'reached' ? 1 : 2
      const step = first + Math.floor(random() * (part.steps.length + 1 - first))
      const count = (people: (number | null)[]): number =>
        outcome === 'reached' ? people[step - 1]! : people[step - 2]! - people[step - 1]!
      const { times } = part.steps[step - 1]!
      const at = outcome === 'reached' && times.length > 0 && random() < 0.5 ? Math.floor(random() * times.length) : null
      return {
        cell: { kind: 'funnel', step, outcome, tag: tagOfPart(part), fromMs: at === null ? null : times[at]!.from_ms },
        number: at === null ? count(part.steps.map(({ people }) => people)) : times[at]!.people,
        read: (plain) => at === null ? count(plain.all.map(([people]: number[]) => people)) : plain.all[step - 1][3][at]
      }
    }
    case 'paths': {
      const edge = random() < 0.2 ? null : pickOne(answer.edges, random) ?? null
      const key = JSON.stringify([edge?.step, edge?.from ?? '', edge?.to ?? ''])
      return { cell: { kind: 'paths', edge }, number: edge === null ? answer.people : edge.people, read: ({ all, parts }) => edge === null ? all[0] : parts[key]?.[0] }
    }
    case 'lifecycle': {
      const at = Math.floor(random() * answer.points.length)
      const { state, values } = pickOne(answer.states, random)
      return { cell: { kind: 'lifecycle', start: answer.points[at]!.start, state }, number: values[at], read: (plain) => plain[state][at] }
    }
    case 'stickiness': {
      const { periods, people } = pickOne(answer.counts, random)
      return { cell: { kind: 'stickiness', periods }, number: people, read: (plain) => plain[periods - 1] }
    }
    case 'retention': {
      const cohorts = answer.cohorts.filter(({ returned }) => returned.length > 0)
      if (cohorts.length === 0) return undefined
      const { start, returned: counts } = pickOne(cohorts, random)
      const returned = Math.floor(random() * counts.length)
      return { cell: { kind: 'retention', start, returned }, number: counts[returned]?.people, read: (plain) => plain[start][returned] }
    }
  }
}

t.test(`the persons behind a random number of ${QUESTIONS / 4} answers are those who make it`, async (t) => {
  const counts = { numbers: 0, checkedPlainly: 0, people: 0 }
  for (let index = 0; counts.numbers < QUESTIONS / 4; index++) {
    const { projectId, timezone, changes, events } = projects[index % projects.length]!
    const { question: asked, now } = randomQuestion(random, changes)
    const question = readQuestion(toDefinition(asked))
    const picked = pickCell(await ask(toDefinition(asked), { projectId, timezone, now }), question)
    if (picked?.number == null || (picked.number === 0 && random() < 0.9)) continue
    counts.numbers++
    const { cell, number, read } = picked
    const range = resolveRange(question, { timezone, weekStarts: 'sunday', now })
    const rows = await select(compilePersons(question, cell, { projectId, range, limit: 10_000 }))
    const listed = new Set(rows.map(([person]) => String(person)))
    counts.people += listed.size
    t.equal(listed.size, Number(rows[0]?.[3] ?? 0), 'each is listed once')
    const measure = cell.kind === 'trend' && question.kind === 'trend' ? question.series[cell.series]?.measure : 'people'
    const sum = measure === 'people' ? listed.size : rows.reduce((total, [, , value]) => total + Number(value), 0)
    const about = JSON.stringify({ index, timezone, now, cell, asked })
    if (['events', 'people', 'sum'].includes(measure ?? '')) t.ok(Math.abs(sum - number) < 1e-6, `${sum} of ${number}: ${about}`)
    if (asked.breakdown !== null && ['trend', 'funnel'].includes(asked.kind)) continue
    // Of fewer people, other names may be the most common.
    if (asked.kind === 'paths' && asked.paths.names === null && asked.paths.nodes < 50) continue
    // What they did makes the number, and what all others did adds nothing.
    counts.checkedPlainly++
    const begins = Math.min(...events.map(({ at }) => at))
    const answer = (isListed: boolean) => {
      const theirs = events.filter(({ person }) => listed.has(person) === isListed)
      return read(answerPlainly(asked, { timezone, now, begins, events: theirs }))
    }
    t.equal(answer(true), number, about)
    t.notOk(answer(false), about)
  }
  t.comment(counts)
  t.ok(counts.checkedPlainly > 0 && counts.people > 0)
})

t.test(`the persons behind ${QUESTIONS / 4} numbers stay those of their moment while events arrive, late ones too`, async (t) => {
  const storedUntil = Date.now()
  const lists: { list: (storedUntil?: number) => Promise<string>, before: string, about: string }[] = []
  for (let index = 0; lists.length < QUESTIONS / 4; index++) {
    const { projectId, timezone, changes } = projects[index % projects.length]!
    const { question: asked, now } = randomQuestion(random, changes)
    const question = readQuestion(toDefinition(asked))
    const picked = pickCell(await ask(toDefinition(asked), { projectId, timezone, now }), question)
    if (picked?.number == null || picked.number === 0) continue
    const list = async (until?: number): Promise<string> => {
      const range = resolveRange(question, { timezone, weekStarts: 'sunday', now, ...until !== undefined && { storedUntil: until } })
      const rows = await select(compilePersons(question, picked.cell, { projectId, range, limit: 10_000 }))
      return JSON.stringify(rows.map(([person, at, , people]) => [person, at, people]))
    }
    lists.push({ list, before: await list(), about: JSON.stringify({ index, now, cell: picked.cell, asked }) })
  }
  for (const { projectId, changes } of projects) {
    const made = Array.from({ length: EVENTS / 4 }, () => randomEvent(random, changes))
    await client.insert({ table: 'events', values: toRows(projectId, made), format: 'JSONEachRow' })
  }
  let changed = 0
  for (const { list, before, about } of lists) {
    t.equal(await list(storedUntil), before, about)
    if (await list() !== before) changed++
  }
  t.ok(changed > 0, `${changed} lists would have changed`)
})

const OCTOBER = { events: [], begins: 0, timezone: 'Europe/Berlin', now: Date.parse('2026-10-25T12:00:00Z') }
const ANY = { event: null, where: [] }

function trendOf (range: PlainQuestion['range']): PlainQuestion {
  return {
    kind: 'trend', range, compare: true, interval: 'day', series: [{ ...ANY, measure: 'events' }], breakdown: null,
    include_bots: true, week_starts: 'monday', steps: [], window: { value: 1, unit: 'day' }, order: 'in_order', attribution: 'first',
    formula: null, cohort: 'first', returns: 'on', activity: ANY, start: ANY, returning: ANY, exclude: [],
    paths: { anchor: ANY, isBackward: false, steps: 5, names: null, nodes: 20, minPeople: 1, gap: { value: 1, unit: 'day' } }
  }
}

t.test('two whole months are compared with all days of the two before', async (t) => {
  const answer = answerPlainly(trendOf({ last: 2, unit: 'month', whole: true }), OCTOBER) as Record<string, { starts: string[] }>

  t.match([answer.previous?.starts[0], answer.previous?.starts.at(-1)], ['2026-06-01', '2026-07-31'])
  t.match([answer.present?.starts[0], answer.present?.starts.at(-1)], ['2026-08-01', '2026-09-30'])
})

t.test('days that the plain calendar does not list are refused instead of left out', async (t) => {
  const tooLong = [
    { last: 6, unit: 'month', whole: false }, { last: 100, unit: 'day', whole: true },
    { from: '2026-04-01', to: '2026-04-30' }, { from: '2026-10-01', to: '2026-12-24' }
  ]

  for (const range of tooLong) t.throws(() => answerPlainly(trendOf(range), OCTOBER), RangeError, JSON.stringify(range))
})
