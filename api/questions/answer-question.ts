import { randomUUID } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { type Calendar, resolveRange, type ResolvedRange } from '../../engines/questions/calendar.ts'
import { compileQuestion, samplesOf } from '../../engines/questions/compile-question.ts'
import { compileDropouts } from '../../engines/questions/funnel-sql.ts'
import type { Funnel, Question } from '../../engines/questions/question.ts'
import { type Answer, type AnswerRow, checkSize, shapeAnswer } from '../../engines/questions/shape-answer.ts'
import type { ClickHouse, ClickHouseAddress } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { readCompleteThrough } from '../../platform/read-watermark.ts'
import { askClickHouse } from '../queries/ask-clickhouse.ts'

/** Whom and what a question is asked of. */
export interface Asking extends Calendar {
  projectId: number
  /** Unix milliseconds. */
  now: number
  /** For the watermark. */
  clickhouse: ClickHouse
  /** With the login of analysts. */
  analyst: ClickHouseAddress
  logComment: string
  signal: AbortSignal
}

/** What is said beside every answer, so that nothing is wrong in silence. */
interface Facts {
  sql: string
  from: string
  to: string
  timezone: string
  /** Everything that was acknowledged and received before it is counted; null while nothing is known. */
  complete_through: string | null
  read_rows: number
  read_bytes: number
  ms: number
  includes_bots: boolean
  samples: 'weighted' | 'as_stored'
}

/** By which a project counts days and weeks. */
export async function readCalendar (sql: Sql, projectId: number): Promise<Calendar> {
  const [calendar] = await sql<Calendar[]>`SELECT timezone, week_starts AS "weekStarts" FROM projects WHERE id = ${projectId}`
  return calendar ?? { timezone: 'UTC', weekStarts: 'monday' }
}

/** @throws {HttpError} 400 for a range that is too long. @throws {QueryFailedError} */
export async function answerQuestion (question: Question, asking: Asking): Promise<Facts & { answer: Answer }> {
  const range = resolveRange(question, asking)
  checkSize(question, range)
  const { rows, facts } = await run(compileQuestion(question, asking.projectId, range), range, asking)
  const answer = shapeAnswer(question, range, rows)
  return { ...facts, includes_bots: question.includeBots, samples: samplesOf(question), answer }
}

interface Dropout { person_id: string, entered_at: string }

/** The persons who reached the step before and not this one. @throws {QueryFailedError} */
export async function listDropouts (
  funnel: Funnel, asking: Asking, asked: { step: number, limit: number }
): Promise<Facts & { results: Dropout[] }> {
  const range = resolveRange(funnel, asking)
  const { projectId } = asking
  const sql = compileDropouts(funnel, { ...asked, projectId, range })
  const { rows, facts } = await run(sql, range, asking)
  const results = rows.map(([person, entered]) => ({
    person_id: String(person), entered_at: new Date(`${String(entered).replace(' ', 'T')}Z`).toISOString()
  }))
  return { ...facts, includes_bots: funnel.includeBots, samples: samplesOf(funnel), results }
}

interface Result { data: AnswerRow[], statistics?: { rows_read?: number, bytes_read?: number } }

async function run (
  sql: string, { firstDay, lastDay, timezone }: ResolvedRange, { clickhouse, analyst, logComment, signal }: Asking
): Promise<{ rows: AnswerRow[], facts: Omit<Facts, 'includes_bots' | 'samples'> }> {
  // Before the query, which then has at least what the watermark promises.
  const through = await readCompleteThrough(clickhouse).catch(() => null)
  const startedAt = performance.now()
  const response = await askClickHouse(analyst, {
    query: sql, queryId: `question-${randomUUID()}`, format: 'JSONCompact', parameters: {}, logComment,
    settings: { wait_end_of_query: '1' }
  }, { signal, onProgress: () => {} })
  const { data, statistics = {} } = JSON.parse(await text(response)) as Result
  return {
    rows: data,
    facts: {
      sql, from: firstDay, to: lastDay, timezone, complete_through: through?.toISOString() ?? null,
      read_rows: statistics.rows_read ?? 0, read_bytes: statistics.bytes_read ?? 0, ms: performance.now() - startedAt
    }
  }
}
