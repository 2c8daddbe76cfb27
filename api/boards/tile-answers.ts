import { randomUUID } from 'node:crypto'
import { HttpError } from '../../engines/errors.ts'
import { notFound } from '../http/answer-errors.ts'
import { resolveRange } from '../../engines/questions/calendar.ts'
import { readQuestion } from '../../engines/questions/read-question.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { readCompleteThrough } from '../../platform/clickhouse/connect-clickhouse.ts'
import { createSemaphore, SemaphoreTimeoutError } from '../../platform/semaphore.ts'
import { askClickHouse } from '../queries/ask-clickhouse.ts'
import { blankFormat } from '../../engines/questions/blank-format.ts'
import { findDocument } from '../queries/named-documents.ts'
import { QueryFailedError } from '../queries/query-failure.ts'
import { SAVED_QUERIES } from '../queries/saved-query-routes.ts'
import { runQuery } from '../queries/sql-routes.ts'
import { EXACT_VALUES, ROW_FORMAT, streamResult } from '../queries/stream-result.ts'
import { answerQuestion, type Asking, type QuestionDeps, readAsking } from '../questions/answer-question.ts'
import { QUESTIONS } from '../questions/question-routes.ts'

/** An answer is used again until the watermark is so far past the one that it names, in milliseconds. */
const MAX_BEHIND_MS = 60_000
/** And no longer than this: persons are merged and deleted while a watermark stands. */
const MAX_AGE_MS = 600_000
const MAX_ANSWERS = 100
/** Queries of boards at once in one process: each board asks for all its answers, and analysts need places, too. */
const AT_ONCE = 2
const MAX_WAIT_MS = 60_000
/** A query may take 60 s; the rest is for reading its result. */
const MAX_SECONDS = 90
const RESULT_LIMITS = { rows: 1000, bytes: 1_000_000 }

export interface Tile { kind: 'question' | 'saved_query', id: number }

export interface TileAsked {
  projectId: number
  tile: Tile
  logComment: string
  /** Recompute it, ignoring the cache. */
  refresh?: boolean
  /** When the link was made: what a saved query became since is not shown, not even while it is being changed. */
  unchangedSince?: Date | undefined
}

interface Known { through: number, at: number, answer: Promise<object> }

/** Answers of what stands on boards, which viewers share: one computes an answer, the others wait for it. */
export function createTileAnswers (deps: QuestionDeps): (asked: TileAsked) => Promise<object> {
  const { sql, clickhouse, queries } = deps
  const known = new Map<string, Known>()
  const places = createSemaphore({ limit: AT_ONCE, maxWaitMs: MAX_WAIT_MS })

  /** Not ended by a viewer who leaves: others may wait for it, and the next one finds it. */
  async function run (compute: (signal: AbortSignal) => Promise<object>): Promise<object> {
    return await places.run(async () =>
      await runQuery(queries.begin('boards', MAX_SECONDS), async ({ signal }) => await compute(signal))
    ).catch((cause: unknown) => {
      if (!(cause instanceof SemaphoreTimeoutError)) throw cause
      throw new HttpError(429, 'throttled_error', 'throttled', 'Too many board answers are being computed; try again in a moment.', { cause })
    })
  }

  return async ({ projectId, tile, logComment, refresh = false, unchangedSince }) => {
    const asking = await readAsking(deps, { projectId, logComment })
    const { key, compute } = await prepare(sql, tile, { ...asking, unchangedSince })
    const through = (await readCompleteThrough(clickhouse).catch(() => null))?.getTime() ?? null
    const before = known.get(key)
    const isUsable = before !== undefined && through !== null && through - before.through <= MAX_BEHIND_MS &&
      asking.now - before.at <= MAX_AGE_MS
    if (isUsable && !refresh) return { ...await before.answer, is_cached: true }
    const moment = { answered_at: new Date(asking.now).toISOString(), is_cached: false }
    const answer = run(compute).then((found) => ({ ...found, ...moment }))
    known.delete(key)
    if (through !== null) {
      known.set(key, { through, at: asking.now, answer })
      answer.catch(() => { if (known.get(key)?.answer === answer) known.delete(key) })
      for (const oldest of known.keys()) if (known.size > MAX_ANSWERS) known.delete(oldest)
    }
    return await answer
  }
}

interface Prepared {
  /** The same for what has the same answer, on one day. */
  key: string
  compute: (signal: AbortSignal) => Promise<object>
}

async function prepare (
  sql: Sql, { kind, id }: Tile, { unchangedSince, ...asking }: Omit<Asking, 'signal'> & Pick<TileAsked, 'unchangedSince'>
): Promise<Prepared> {
  const { projectId, timezone, weekStarts, clickhouse } = asking
  if (kind === 'question') {
    const { name, description, definition } = await findDocument(sql, QUESTIONS, { projectId, id })
    const question = readQuestion(definition)
    const { firstDay, lastDay } = resolveRange(question, asking)
    return {
      key: JSON.stringify([projectId, timezone, weekStarts, firstDay, lastDay, name, description, definition]),
      async compute (signal) {
        const answer = await answerQuestion(question, { ...asking, signal })
        return { name, description, question: { definition, ...answer }, result: null }
      }
    }
  }
  const stored = await findDocument(sql, SAVED_QUERIES, { projectId, id })
  if (unchangedSince !== undefined && new Date(stored.updated_at) > unchangedSince) throw notFound()
  const { name, description, query, parameters, chart } = stored
  return {
    key: JSON.stringify([projectId, name, description, query, parameters, chart]),
    async compute (signal) {
      const through = await readCompleteThrough(clickhouse).catch(() => null)
      const asked = { query: blankFormat(query), parameters: parameters ?? {} }
      const found = await readResult(asked, { ...asking, signal })
      const result = { chart, complete_through: through?.toISOString() ?? null, ...found }
      return { name, description, question: null, result }
    }
  }
}

interface Result { columns: [string[], string[]], rows: unknown[][], cut: string | null, read_rows: number, ms: number }

async function readResult (
  asked: { query: string, parameters: Record<string, string> }, { analyst, logComment, signal }: Asking
): Promise<Result> {
  const startedAt = performance.now()
  const settings = { ...EXACT_VALUES, limit: String(RESULT_LIMITS.rows + 1), wait_end_of_query: '1' }
  const found = await askClickHouse(analyst, {
    ...asked, queryId: `board-${randomUUID()}`, format: ROW_FORMAT, settings, logComment
  }, { signal, onProgress: () => {} })
  const lines: Array<Partial<Pick<Result, 'columns' | 'rows'>>> = []
  const end = await streamResult(found, RESULT_LIMITS, async (line) => { lines.push(JSON.parse(String(line))) })
  if ('detail' in end) throw new QueryFailedError(end)
  return {
    columns: lines.find(({ columns }) => columns !== undefined)?.columns ?? [[], []],
    rows: lines.flatMap(({ rows = [] }) => rows),
    cut: end.cut, read_rows: end.read_rows, ms: performance.now() - startedAt
  }
}
