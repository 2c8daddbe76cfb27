/** A result as it arrives. */
import type { Column, Value } from '../../../engines/charts/result-values.ts'
import type { Schema } from '../../api-types.ts'
import { openStream, readLines, type ApiError } from '../api-client.ts'

type QueryLine = Required<Schema<'QueryLine'>>
export type ResultEnd = QueryLine['end']
export type QueryFailure = QueryLine['error']

const BROKEN_OFF: QueryFailure = {
  code: 0, name: 'NO_ANSWER', detail: 'The answer was interrupted.', advice: 'Run the query again.', position: null
}

export interface QueryRun {
  state: 'running' | 'done' | 'failed' | 'cancelled'
  startedAt: number
  query: string
  maxRows: number
  progress?: QueryLine['progress']
  columns: Column[]
  rows: Value[][]
  end?: ResultEnd
  failure?: QueryFailure
  error?: ApiError
}

type Line = Pick<QueryLine, 'query_id'> | Pick<QueryLine, 'progress'> | { columns: [string[], string[]] } | { rows: Value[][] } |
  Pick<QueryLine, 'end'> | Pick<QueryLine, 'error'>

export interface Asked { query: string, parameters: Record<string, string>, max_rows: number }

/**
 * Runs a query and reads its answer as it comes.
 *
 * @param onChange  Gets the run after each piece.
 * @param signal    Its firing cancels the query, in ClickHouse too.
 * @throws {ApiError} when it was not taken, or the answer broke off.
 */
export async function runQuery (
  asked: Asked, run: QueryRun, { onChange, signal }: { onChange: (run: QueryRun) => void, signal: AbortSignal }
): Promise<void> {
  const stream = await openStream('/api/sql', signal, { method: 'POST', body: asked })
  let current = run
  for await (const lines of readLines(stream)) {
    for (const line of lines) current = apply(current, JSON.parse(line) as Line)
    onChange(current)
  }
  if (current.state === 'running') {
    onChange({ ...current, state: 'failed', failure: BROKEN_OFF })
  }
}

function apply (run: QueryRun, line: Line): QueryRun {
  if ('progress' in line) return { ...run, progress: line.progress }
  if ('columns' in line) {
    const [names, types] = line.columns
    return { ...run, columns: names.map((name, index) => ({ name, type: types[index] ?? '' })) }
  }
  if ('rows' in line) {
    // The array is the run's own, and grows: copying it for each piece would be quadratic.
    for (const row of line.rows) run.rows.push(row)
    return { ...run }
  }
  if ('end' in line) return { ...run, state: 'done', end: line.end }
  if ('error' in line) return { ...run, state: 'failed', failure: line.error }
  return run
}

/** Where a failure is in the text of its query: the position that ClickHouse counts in bytes. */
export function positionOf (query: string, { position }: Pick<QueryFailure, 'position'>): number | null {
  if (position === null) return null
  const before = new TextEncoder().encode(query).subarray(0, position - 1)
  return new TextDecoder().decode(before).length
}

/** A position as people count: `line 2, column 8`. */
export function describePosition (query: string, position: number): string {
  const lines = query.slice(0, position).split('\n')
  return `line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}`
}
