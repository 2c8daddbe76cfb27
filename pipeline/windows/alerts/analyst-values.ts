/** Values of questions and saved queries, read with the login and the limits of analysts. */
import type { ChartChoice, ChartKind } from '../../../engines/charts/chart-model.ts'
import { contentOfAnswer, contentOfResult, type PictureContent } from '../../../engines/charts/picture-content.ts'
import { type AnalystResult, readWindows } from '../../../engines/questions/alert-windows.ts'
import { blankFormat } from '../../../engines/questions/blank-format.ts'
import { resolveRange, type Span } from '../../../engines/questions/calendar.ts'
import { compileQuestion } from '../../../engines/questions/compile-question.ts'
import { describeAnswer } from '../../../engines/questions/describe-answer.ts'
import type { Question } from '../../../engines/questions/question.ts'
import { readQuestion } from '../../../engines/questions/read-question.ts'
import { shapeAnswer } from '../../../engines/questions/shape-answer.ts'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../../platform/postgres/connect-postgres.ts'

export interface AnalystDeps {
  sql: Sql
  /** With the analyst login; null without one. */
  analyst: ClickHouse | null
}

/** What an alert or a report is about. */
export interface Subject { kind: 'question' | 'saved_query' | 'board', id: number }

/** A project's alert, as far as it says what may be read. */
export interface Asker {
  project: number
  /** Whether SQL may be run for it now, unless it was changed after this moment. */
  mayRunSql: boolean
  updatedAt: Date
}

const MAX_REPORT_ROWS = 10
const MAX_VALUE_ROWS = 1000
/** A longer text of somebody's query would take the memory of all. */
const MAX_RESULT_BYTES = '32000000'

/** @throws when it cannot be answered. */
export async function readValue (
  deps: AnalystDeps, { kind, id }: Subject, asker: Asker, window: Span & { size: 'hour' | 'day' }
): Promise<number | null> {
  const watched = kind === 'saved_query' ? await findQuery(deps.sql, id, asker) : await findQuestion(deps.sql, id, asker)
  const read = await readWindows(watched, { ...window, project: asker.project }, async (query, parameters) =>
    await ask(deps, query, MAX_VALUE_ROWS, parameters))
  return read(window.from) ?? null
}

/** An answer as text and as what its picture shows. */
export interface TileReport { name: string, lines: string[], content: PictureContent }

/** An answer as it is just before `to`. @throws when it cannot be answered. */
export async function readReport (
  deps: AnalystDeps, { kind, id }: Subject, asker: Asker, to: number
): Promise<TileReport> {
  if (kind === 'saved_query') {
    const { name, query, parameters, chart } = await findQuery(deps.sql, id, asker)
    const { meta, data } = await ask(deps, query, chart === null ? MAX_REPORT_ROWS : MAX_VALUE_ROWS, parameters)
    const lines = data.slice(0, MAX_REPORT_ROWS).map((row) => row.join(' | '))
    return { name, lines, content: contentOfResult(meta, data.map((row) => [...row]), chart) }
  }
  const { name, question, display, timezone, weekStarts } = await findQuestion(deps.sql, id, asker)
  const range = resolveRange(question, { timezone, weekStarts, now: to - 1 })
  const { data: [[first = null] = []] } = await ask(deps, `
    SELECT toUnixTimestamp64Milli(min(first_seen)) FROM event_volumes_by_day WHERE project_id = ${asker.project} HAVING count() > 0`)
  const { data } = await ask(deps, compileQuestion(question, asker.project, range))
  // The period that ends with it is complete.
  const known = { ...range, now: to, ...first !== null && { firstEvent: Number(first) } }
  const answer = shapeAnswer(question, known, data)
  return { name, lines: describeAnswer(answer), content: contentOfAnswer(answer, { question, display, timezone }) }
}

interface FoundQuestion { name: string, question: Question, display: ChartKind, timezone: string, weekStarts: 'monday' | 'sunday' }

async function findQuestion (sql: Sql, id: number, { project }: Asker): Promise<FoundQuestion> {
  const [found] = await sql<(Omit<FoundQuestion, 'question'> & { definition: unknown })[]>`
    SELECT q.name, q.definition, coalesce(q.definition ->> 'display', 'line') AS display, p.timezone, p.week_starts AS "weekStarts" FROM questions AS q JOIN projects AS p ON p.id = q.project_id
    WHERE q.project_id = ${project} AND q.id = ${id}`
  if (found === undefined) throw new Error(`the project has no question ${id}`)
  return { ...found, question: readQuestion(found.definition) }
}

interface FoundQuery {
  name: string
  query: string
  parameters: Record<string, string>
  chart: ChartChoice | null
  isAllowed: boolean
}

/** Its SQL may read all projects: it runs as it was when somebody with a key of all projects saved the alert. */
async function findQuery (sql: Sql, id: number, { project, mayRunSql, updatedAt }: Asker): Promise<FoundQuery> {
  const [found] = await sql<FoundQuery[]>`
    SELECT name, query, parameters, chart, ${mayRunSql} AND date_trunc('milliseconds', updated_at) <= ${updatedAt} AS "isAllowed"
    FROM saved_queries WHERE project_id = ${project} AND id = ${id}`
  if (found === undefined) throw new Error(`the project has no saved query ${id}`)
  if (!found.isAllowed) throw new Error(`saved query ${id} was changed after the alert was saved, or whoever saved it may no longer run SQL: save the alert again with a key of all projects`)
  return found
}

async function ask (
  { analyst }: AnalystDeps, query: string, limit: number | null = null, parameters: Record<string, string> = {}
): Promise<AnalystResult> {
  if (analyst === null) throw new Error('there is no login for analysts (MILLRACE_CLICKHOUSE_ANALYST_URL)')
  const result = await analyst.query({
    query: blankFormat(query), query_params: parameters, format: 'JSONCompact',
    clickhouse_settings: { max_result_bytes: MAX_RESULT_BYTES, ...limit !== null && { limit: String(limit) } }
  })
  const { meta = [], data } = await result.json<AnalystResult['data'][number]>()
  return { meta, data }
}
