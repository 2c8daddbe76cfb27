import { randomUUID } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { type Calendar, type Moment, resolveRange, type ResolvedRange } from '../../engines/questions/calendar.ts'
import { type Cell, compilePersons, compileQuestion, eventNamesOf, samplesOf } from '../../engines/questions/compile-question.ts'
import { EARLIEST_MS } from '../../engines/parse-timestamp.ts'
import type { Question } from '../../engines/questions/question.ts'
import { type Answer, type AnswerRow, checkSize, shapeAnswer } from '../../engines/questions/shape-answer.ts'
import { type ClickHouse, type ClickHouseAddress, parseClickHouseUrl, readCompleteThrough } from '../../platform/clickhouse/connect-clickhouse.ts'
import { readKeptFrom } from '../../platform/retention-rules.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { askRows } from '../http/describe-clickhouse-error.ts'
import type { Value } from '../http/json-schema.ts'
import { parseIsoDateTime } from '../http/request-values.ts'
import type { RunningQueries } from '../queries/answer-query.ts'
import { askClickHouse } from '../queries/ask-clickhouse.ts'
import { sqlNotSetUp } from '../queries/sql-routes.ts'
import type { answerSchema } from './question-schemas.ts'
import { placesOf, readUsedCohorts } from './used-cohorts.ts'

export interface QuestionDeps {
  sql: Sql
  clickhouse: ClickHouse
  analystUrl: string
  queries: RunningQueries
  now: () => number
}

export interface Asking extends Moment, Pick<QuestionDeps, 'sql' | 'clickhouse'> {
  projectId: number
  /** Events of earlier days of UTC were removed by retention; null: none were. */
  keptFrom: string | null
  analyst: ClickHouseAddress
  logComment: string
  signal: AbortSignal
}

/** Facts beside every answer, such as its range and completeness. */
type AnswerFacts = Omit<Value<typeof answerSchema>, 'answer'>
type Facts = Omit<AnswerFacts, 'first_event_at' | 'unknown_events'>

/** By which days and weeks a project counts, now. @throws {HttpError} 503 without a login for analysts. */
export async function readAsking (
  { sql, clickhouse, analystUrl, now }: QuestionDeps, asked: Pick<Asking, 'projectId' | 'logComment'>
): Promise<Omit<Asking, 'signal'>> {
  if (analystUrl === '') throw sqlNotSetUp()
  const [calendar = { timezone: 'UTC', weekStarts: 'monday' }] = await sql<Calendar[]>`
    SELECT timezone, week_starts AS "weekStarts" FROM projects WHERE id = ${asked.projectId}`
  // Without ClickHouse, the query says so.
  const keptFrom = await readKeptFrom({ sql, clickhouse }, asked.projectId, now()).catch(() => null)
  return { ...asked, ...calendar, now: now(), keptFrom, sql, clickhouse, analyst: parseClickHouseUrl(analystUrl) }
}

/** @throws {HttpError} 400 for a range that is too long. @throws {QueryFailedError} */
export async function answerQuestion (question: Question, asking: Asking): Promise<AnswerFacts & { answer: Answer }> {
  const range = resolveRange(question, asking)
  checkSize(question, range)
  const { rows, facts } = await run(compileQuestion(question, asking.projectId, range), question, range, asking)
  const { first, unknown } = await readSeen(asking, asking.projectId, eventNamesOf(question))
  return {
    ...facts, first_event_at: first === null ? null : new Date(first).toISOString(), unknown_events: unknown,
    answer: shapeAnswer(question, { ...range, ...first !== null && { firstEvent: first } }, rows)
  }
}

/** The moment of an answer: its days, and what was stored until then. @param asOf  Its `as_of`; left out: now. */
export function atMoment<T extends Moment> (present: T, asOf: string | undefined): T {
  if (asOf === undefined) return present
  const moment = Math.min(present.now, Math.max(EARLIEST_MS, parseIsoDateTime(asOf)?.getTime() ?? present.now))
  return { ...present, now: moment, storedUntil: moment }
}

/**
 * The persons behind a number of an answer, as of its moment: its days, and the events and members of cohorts stored
 * until then. Merges and properties are those of now, so that each listed person can be opened.
 *
 * @param asked.asOf  `as_of` of the answer; left out: now.
 * @throws {HttpError} 400 for a number that the answer does not have, and for members that are not stored any more.
 * @throws {QueryFailedError}
 */
export async function listPersonsBehind (
  question: Question, cell: Cell, present: Asking, { limit, asOf }: { limit: number, asOf?: string | undefined }
): Promise<Facts & { people: number, results: { person_id: string, at: string | null, value: number | null }[] }> {
  const asking = atMoment(present, asOf)
  const range = resolveRange(question, asking)
  checkSize(question, range)
  const sql = compilePersons(question, cell, { projectId: asking.projectId, range, limit })
  const { rows, facts } = await run(sql, question, range, asking)
  const results = rows.map(([person, at, value]) => ({
    person_id: String(person),
    at: at == null ? null : new Date(`${String(at).replace(' ', 'T')}Z`).toISOString(),
    value: value == null ? null : Number(value)
  }))
  return { ...facts, people: Number(rows[0]?.[3] ?? 0), results }
}

/** When the first event of a project happened, in Unix milliseconds, and which of some names no event ever had. */
export async function readSeen (
  { clickhouse }: Pick<QuestionDeps, 'clickhouse'>, project: number, names: readonly string[]
): Promise<{ first: number | null, unknown: string[] }> {
  const [seen] = await askRows<{ first: number | null, known: string[] }>(clickhouse, `
    SELECT if(count() = 0, NULL, toFloat64(toUnixTimestamp64Milli(min(first_seen)))) AS first, groupUniqArrayIf(event, has({names: Array(String)}, event)) AS known
    FROM event_volumes_by_day WHERE project_id = {project: UInt32}`, { project, names })
  return { first: seen?.first ?? null, unknown: names.filter((name) => !seen?.known.includes(name)) }
}

interface Result { data: AnswerRow[], statistics?: { rows_read?: number, bytes_read?: number } }

async function run (
  sql: string, question: Question, { firstDay, lastDay, timezone, now }: ResolvedRange,
  { analyst, keptFrom, logComment, signal, ...asking }: Asking
): Promise<{ rows: AnswerRow[], facts: Facts }> {
  const cohorts = await readUsedCohorts(asking.sql, asking.projectId, placesOf(question), asking)
  // Before the query, which then has at least what the watermark promises.
  const through = await readCompleteThrough(asking.clickhouse).catch(() => null)
  const startedAt = performance.now()
  const response = await askClickHouse(analyst, {
    query: sql, queryId: `question-${randomUUID()}`, format: 'JSONCompact', parameters: {}, logComment,
    settings: { wait_end_of_query: '1' }
  }, { signal, onProgress: () => {} })
  const { data, statistics = {} } = JSON.parse(await text(response)) as Result
  return {
    rows: data,
    facts: {
      sql, from: firstDay, to: lastDay, timezone, as_of: new Date(now).toISOString(), kept_from: keptFrom,
      complete_through: through?.toISOString() ?? null,
      read_rows: statistics.rows_read ?? 0, read_bytes: statistics.bytes_read ?? 0, ms: performance.now() - startedAt,
      includes_bots: question.includeBots, samples: samplesOf(question), cohorts
    }
  }
}
