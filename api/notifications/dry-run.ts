import { randomUUID } from 'node:crypto'
import { text } from 'node:stream/consumers'
import type { FastifyReply } from 'fastify'
import { invalidField } from '../../engines/errors.ts'
import { type AlertCondition, type AnalystResult, comparesWeeks, outcomeOf, readWindows, WINDOW_MS, type WindowValue } from '../../engines/questions/alert-windows.ts'
import type { Span } from '../../engines/questions/calendar.ts'
import { readQuestion } from '../../engines/questions/read-question.ts'
import { readCompleteThrough } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { Access } from '../http/personal-key-access.ts'
import { askClickHouse } from '../queries/ask-clickhouse.ts'
import { findDocument } from '../queries/named-documents.ts'
import { SAVED_QUERIES } from '../queries/saved-query-routes.ts'
import { logCommentOf, runQuery } from '../queries/sql-routes.ts'
import { type Asking, type QuestionDeps, readAsking } from '../questions/answer-question.ts'
import { QUESTIONS } from '../questions/question-routes.ts'

const DAYS = 30
const MAX_SECONDS = 90
/** A saved query runs once for each window: then with those it has, in milliseconds. */
const MAX_QUERIES_MS = 45_000

interface Watching { about: { kind: string, id: number }, every: string }

/** Who asks, and the answer for which they wait, if they may leave. */
interface Asker { access: Access, reply?: FastifyReply }

interface Window extends WindowValue { from: number, to: number }

/** Evaluates an alert over the closed windows of 30 days, as it would have been. */
export async function runDry (
  deps: QuestionDeps, { condition, ...watching }: Watching & { condition: AlertCondition }, asker: Asker
): Promise<object> {
  const size = sizeOf(watching)
  const through = await readCompleteThrough(deps.clickhouse)
  if (through === null) throw invalidField('about', 'Nothing was stored yet, so no window is closed.')
  const to = Math.floor(through.getTime() / WINDOW_MS[size]) * WINDOW_MS[size]
  const first = to - DAYS * WINDOW_MS.day
  const from = comparesWeeks(condition) ? first - WINDOW_MS.week : first
  const values = await readValues(deps, watching, asker, { from, to })
  const windows: Window[] = []
  for (let from = first; from < to; from += WINDOW_MS[size]) {
    const [value, before] = [values(from), comparesWeeks(condition) ? values(from - WINDOW_MS.week) : null]
    if (value !== undefined && before !== undefined) windows.push({ from, to: from + WINDOW_MS[size], value, before })
  }
  let isFiring = false
  const results = windows.flatMap(({ from, to, ...values }) => {
    const outcome = outcomeOf(condition, isFiring, values)
    if (outcome === null) return []
    isFiring = outcome === 'fired'
    return [{ from: toText(from), to: toText(to), ...values, outcome }]
  })
  return { from: toText(windows[0]?.from ?? to), to: toText(to), windows: windows.length, results }
}

/** Evaluates the newest whole window. @throws {HttpError} 400 for a query that fails or gives no number. */
export async function tryWindow (deps: QuestionDeps, watching: Watching, access: Access): Promise<void> {
  const length = WINDOW_MS[sizeOf(watching)]
  const to = Math.floor(deps.now() / length) * length
  await readValues(deps, watching, { access }, { from: to - length, to })
}

const toText = (at: number): string => new Date(at).toISOString()

const sizeOf = ({ every }: Watching): 'hour' | 'day' => every === 'hour' ? 'hour' : 'day'

async function readValues (
  deps: QuestionDeps, watching: Watching, { access, reply }: Asker, span: Span
): ReturnType<typeof readWindows> {
  const { kind, id } = watching.about
  const { projectId } = access
  const asking = await readAsking(deps, { projectId, logComment: logCommentOf(access) })
  return await runQuery(deps.queries.begin(access.keyHash, MAX_SECONDS), async ({ signal, cancel }) => {
    reply?.raw.once('close', cancel)
    const watched = kind === 'saved_query'
      ? await findDocument(deps.sql, SAVED_QUERIES, { projectId, id })
      : { question: readQuestion((await findDocument(deps.sql, QUESTIONS, { projectId, id })).definition) }
    const deadline = performance.now() + MAX_QUERIES_MS
    return await readWindows(watched, { ...span, project: projectId, size: sizeOf(watching), deadline },
      async (query, parameters) => await ask({ ...asking, signal }, query, parameters))
  })
}

async function ask (
  { analyst, logComment, signal }: Asking, query: string, parameters: Record<string, string> = {}
): Promise<AnalystResult> {
  const response = await askClickHouse(analyst, {
    query, queryId: `alert-${randomUUID()}`, format: 'JSONCompact', parameters, logComment, settings: { wait_end_of_query: '1', limit: '5000' }
  }, { signal, onProgress: () => {} })
  return JSON.parse(await text(response))
}
