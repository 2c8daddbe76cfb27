/**
 * What alerts are made of: the value of a window, and whether it fires.
 *
 * A window has the events that were received in it, so that its value no longer changes once it is closed; a question
 * in the console counts by when events happened. Events that happened more than a day before they were received, such
 * as those of an import, are in no window.
 */
import { blankFormat } from './blank-format.ts'
import { compileQuestion } from './compile-question.ts'
import type { ResolvedRange, Span } from './calendar.ts'
import type { Question, Trend } from './question.ts'
import { instantSql } from './question-sql.ts'
import { type AnswerRow, shapeAnswer } from './shape-answer.ts'
import { invalidField } from '../errors.ts'

export const WINDOW_MS = { hour: 3_600_000, day: 86_400_000, week: 604_800_000 } as const

export type AlertInterval = keyof typeof WINDOW_MS

export const CONDITIONS = ['above', 'below', 'rises_by', 'falls_by'] as const

/** A threshold, or a change in percent against the same window a week before. */
export interface AlertCondition { is: typeof CONDITIONS[number], value: number }

/** Values of a window; null: there is no number. */
export interface WindowValue { value: number | null, before: number | null }

export function comparesWeeks ({ is }: AlertCondition): boolean {
  return is === 'rises_by' || is === 'falls_by'
}

/** Why a condition could never be met, or always is; null: it is of use. */
export function refuseCondition ({ is, value }: AlertCondition): string | null {
  if (is === 'falls_by' && (value <= 0 || value > 100)) return 'A fall is more than 0 and at most 100 percent.'
  return is === 'rises_by' && value <= 0 ? 'A rise is more than 0 percent.' : null
}

/** Null when it cannot be said: no number, or nothing to compare it with. */
export function isMet ({ is, value: limit }: AlertCondition, { value, before }: WindowValue): boolean | null {
  if (value === null) return null
  if (is === 'above') return value > limit
  if (is === 'below') return value < limit
  if (before === null || before === 0) return null
  const percent = (value - before) / Math.abs(before) * 100
  return is === 'rises_by' ? percent >= limit : percent <= -limit
}

/** An alert fires with the first window that meets its condition, and is resolved with the first that does not. */
export function outcomeOf (condition: AlertCondition, wasFiring: boolean, values: WindowValue): 'fired' | 'resolved' | null {
  const isFiring = isMet(condition, values) ?? wasFiring
  return isFiring === wasFiring ? null : isFiring ? 'fired' : 'resolved'
}

export function describeCondition ({ is, value }: AlertCondition): string {
  return comparesWeeks({ is, value }) ? `${is === 'rises_by' ? 'rises' : 'falls'} by ${value} % in a week` : `${is} ${value}`
}

/** Why a question cannot be watched; null: it can. */
export function refuseQuestion (question: Question): string | null {
  if (question.kind !== 'trend') return 'Only trends can be watched.'
  return question.series.length === 1 || question.formula !== null ? null : 'Only a trend of one series, or with a formula, can be watched.'
}

/** What is watched: a question, or a saved query whose first column of the first row is the value of a window. */
export type Watched = { question: Question } | { query: string, parameters: Readonly<Record<string, string>> }

export interface WatchedWindows extends Span {
  project: number
  size: 'hour' | 'day'
  /** When to begin no further query of a window, by the monotonic clock. Default: never. */
  deadline?: number
}

/** A result in the format JSONCompact. */
export interface AnalystResult { meta: { name: string, type: string }[], data: AnswerRow[] }

/** Runs SQL with the login for analysts. */
export type AskAnalyst = (query: string, parameters?: Record<string, string>) => Promise<AnalystResult>

/** The values of a trend in all windows of a span, which begins and ends with one. */
async function readTrend (
  trend: Trend, { project, from, to, size: interval }: WatchedWindows, ask: AskAnalyst
): Promise<(from: number) => number | null> {
  // Days of the key and months are skipped by the second bound of `timestamp`.
  const source = `(SELECT * REPLACE (events.received_at AS timestamp) FROM events
        WHERE project_id = ${project} AND events.received_at >= ${instantSql(from)} AND events.received_at < ${instantSql(to)}
          AND events.timestamp >= events.received_at - INTERVAL 1 DAY AND events.timestamp >= ${instantSql(from - WINDOW_MS.day)})`
  const [firstDay = '', lastDay = ''] = [from, to - 1].map((at) => new Date(at).toISOString().slice(0, 10))
  const windowed: Trend = { ...trend, interval, breakdown: null, compare: false }
  const range: ResolvedRange = {
    from, to, previous: { from, to }, firstDay, lastDay, timezone: 'UTC', weekStarts: 'monday', now: to, keptFrom: -Infinity, source
  }
  const answer = shapeAnswer(windowed, range, (await ask(compileQuestion(windowed, project, range))).data)
  if (answer.kind !== 'trend') throw new Error('the answer of a trend is another one')
  // The line of a formula comes after those of its series.
  const values = answer.lines.at(-1)?.values ?? []
  const found = new Map(answer.points.map(({ start }, index) => [Date.parse(start), values[index] ?? null]))
  return (at) => found.get(at) ?? null
}

/**
 * Reads the values of the windows of a span, a question by one query, and a saved query by one for each window, newest
 * first.
 *
 * @returns the value of the window that begins at an instant; undefined: it was not read.
 * @throws {HttpError} 400 for a value that is not a number.
 * @throws for a question that cannot be watched, and what `ask` throws.
 */
export async function readWindows (
  watched: Watched, windows: WatchedWindows, ask: AskAnalyst
): Promise<(from: number) => number | null | undefined> {
  if ('question' in watched) {
    const { question } = watched
    const refusal = refuseQuestion(question)
    if (question.kind !== 'trend' || refusal !== null) throw new Error(refusal ?? 'Only trends can be watched.')
    return await readTrend(question, windows, ask)
  }
  const { from, to, size, deadline = Infinity } = windows
  const values = new Map<number, number | null>()
  for (let end = to; end > from && performance.now() < deadline; end -= WINDOW_MS[size]) {
    const window = { from: end - WINDOW_MS[size], to: end }
    const parameters = { ...watched.parameters, ...windowParameters(window) }
    const { meta: [column], data: [row] } = await ask(blankFormat(watched.query), parameters)
    values.set(window.from, readNumber(row?.[0], column?.type ?? 'Nothing'))
  }
  return (at) => values.get(at)
}

function windowParameters ({ from, to }: Span): Record<'from' | 'to', string> {
  const text = (at: number): string => new Date(at).toISOString().slice(0, 19).replace('T', ' ')
  return { from: text(from), to: text(to) }
}

/** Whether a query says in its text where a window begins and ends. */
export function namesWindow (query: string): boolean {
  return /\{\s*from\s*:/.test(query) && /\{\s*to\s*:/.test(query)
}

/**
 * A value of a result as a number, also from quotes and text; null: NULL, no row, or not finite.
 *
 * @throws {HttpError} 400 for a column or a text that is not a number. It quotes nothing, as not all may see results.
 */
export function readNumber (cell: unknown, type: string): number | null {
  const bare = type.replaceAll(/(?:Nullable|LowCardinality|SimpleAggregateFunction)\((?:\w+, )?/g, '')
  if (!/^(?:U?Int\d|B?Float\d|Decimal|Bool|String|FixedString|Dynamic|Variant)/.test(bare)) {
    throw invalidField('about__id', `The first column of the query must be a number; it is of the type ${type}.`)
  }
  if (cell === null || cell === undefined) return null
  const text = typeof cell === 'boolean' ? String(Number(cell)) : String(cell).trim()
  if (!/^[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan|inf)$/i.test(text)) throw invalidField('about__id', 'The first column of the query must be a number; it has a text that is not.')
  return Number.isFinite(Number(text)) ? Number(text) : null
}
