import { randomUUID } from 'node:crypto'
import { text } from 'node:stream/consumers'
import type { FastifyReply } from 'fastify'
import { invalidField } from '../../engines/errors.ts'
import {
  type AlertCondition, comparesWeeks, outcomeOf, readWindows, type Watched, WINDOW_MS, type WindowValue
} from '../../engines/questions/alert-windows.ts'
import { readQuestion } from '../../engines/questions/read-question.ts'
import type { AnswerRow } from '../../engines/questions/shape-answer.ts'
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

interface DryRun {
  about: { kind: string, id: number }
  every: string
  condition: AlertCondition
}

interface Window extends WindowValue { from: number, to: number }

/** Evaluates an alert over the closed windows of 30 days, as it would have been. */
export async function runDry (
  deps: QuestionDeps, { about, every, condition }: DryRun, { access, reply }: { access: Access, reply: FastifyReply }
): Promise<object> {
  const size = every === 'hour' ? 'hour' : 'day'
  const asking = await readAsking(deps, { projectId: access.projectId, logComment: logCommentOf(access) })
  const through = await readCompleteThrough(deps.clickhouse)
  if (through === null) throw invalidField('about', 'Nothing was stored yet, so no window is closed.')
  const to = Math.floor(through.getTime() / WINDOW_MS[size]) * WINDOW_MS[size]
  const first = to - DAYS * WINDOW_MS.day
  const span = { from: comparesWeeks(condition) ? first - WINDOW_MS.week : first, to }
  const values = await runQuery(deps.queries.begin(access.keyHash, MAX_SECONDS), async ({ signal, cancel }) => {
    reply.raw.once('close', cancel)
    const deadline = performance.now() + MAX_QUERIES_MS
    const watched = await findWatched(deps, access.projectId, about)
    return await readWindows(watched, { ...span, project: access.projectId, size, deadline },
      async (query, parameters) => await ask({ ...asking, signal }, query, parameters))
  })
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

async function findWatched ({ sql }: QuestionDeps, projectId: number, { kind, id }: DryRun['about']): Promise<Watched> {
  if (kind === 'saved_query') return await findDocument(sql, SAVED_QUERIES, { projectId, id })
  return { question: readQuestion((await findDocument(sql, QUESTIONS, { projectId, id })).definition) }
}

async function ask (
  { analyst, logComment, signal }: Asking, query: string, parameters: Record<string, string> = {}
): Promise<AnswerRow[]> {
  const response = await askClickHouse(analyst, {
    query, queryId: `alert-${randomUUID()}`, format: 'JSONCompact', parameters, logComment, settings: { wait_end_of_query: '1', limit: '5000' }
  }, { signal, onProgress: () => {} })
  const { data }: { data: AnswerRow[] } = JSON.parse(await text(response))
  return data
}

function toText (at: number): string {
  return new Date(at).toISOString()
}
