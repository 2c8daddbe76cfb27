import type { IncomingMessage } from 'node:http'
import { readProgress } from './ask-clickhouse.ts'
import { findException, noAnswer, type QueryFailure } from './query-failure.ts'

/** What the browser gets of a result at most. */
export interface ResultLimits {
  rows: number
  bytes: number
}

export interface ResultEnd {
  rows: number
  bytes: number
  /** Limit that truncated the result; null if it is complete. */
  cut: 'rows' | 'bytes' | null
  /** Rows ClickHouse read, as announced at the beginning of its answer. */
  read_rows: number
  read_bytes: number
}

/** Resolves when more can be sent without filling memory. */
export type SendLine = (line: Uint8Array | string) => Promise<void>

/** The format that it reads: names, types, then a row a line, each an array. */
export const ROW_FORMAT = 'JSONCompactEachRowWithNamesAndTypes'

/** Numbers that a double would round come as text: 64 bits, decimals, and NaN. */
export const EXACT_VALUES = {
  output_format_json_quote_64bit_integers: '1',
  output_format_json_quote_decimals: '1',
  output_format_json_quote_denormals: '1'
} as const

const MAX_ERROR_BYTES = 65_536

const NEWLINE = 0x0a
const BRACKET = 0x5b

/**
 * Sends a result on as lines of JSON, as it comes: `{"columns":[names, types]}`, then `{"rows":[...]}` again and again.
 * Rows are passed on unread. Ends early, and the query with it, when a limit is reached.
 *
 * @returns a failure when the query failed after its first rows.
 */
export async function streamResult (
  answer: IncomingMessage, limits: ResultLimits, send: SendLine
): Promise<ResultEnd | QueryFailure> {
  const head: Buffer[] = []
  const { total_rows: _, ...read } = readProgress(String(answer.headers['x-clickhouse-summary'] ?? '{}'))
  const end: ResultEnd = { rows: 0, bytes: 0, cut: null, ...read }
  let rest: Buffer<ArrayBufferLike> = Buffer.alloc(0)
  let problem = ''
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      if (problem !== '') {
        problem = (problem + chunk.toString()).slice(0, MAX_ERROR_BYTES)
        continue
      }
      const { lines, left } = splitLines(rest.length === 0 ? chunk : Buffer.concat([rest, chunk]))
      rest = left
      const rows: Buffer[] = []
      for (const [index, line] of lines.entries()) {
        if (line[0] !== BRACKET) {
          problem = `\n${[...lines.slice(index), left].map(String).join('\n')}`
          break
        }
        if (head.length < 2) {
          head.push(line)
          if (head.length === 2) await send(`{"columns":[${head.map(String).join(',')}]}\n`)
          continue
        }
        if (end.rows >= limits.rows) end.cut = 'rows'
        else if (end.bytes + line.length > limits.bytes) end.cut = 'bytes'
        if (end.cut !== null) break
        rows.push(line)
        end.rows++
        end.bytes += line.length
      }
      if (rows.length > 0) await send(joinRows(rows))
      // A single value may be larger than all that is shown.
      if (end.cut === null && rest.length > limits.bytes) end.cut = 'bytes'
      if (end.cut !== null) return end
    }
  } catch (error) {
    // A result that failed ends without its regular end.
    return findException(problem === '' ? `\n${String(rest)}` : problem) ?? failedReading(error)
  } finally {
    answer.destroy()
  }
  return findException(problem === '' ? `\n${String(rest)}` : problem) ?? end
}

function failedReading (error: unknown): QueryFailure {
  if (error instanceof Error && error.name === 'AbortError') throw error
  return noAnswer()
}

function splitLines (bytes: Buffer): { lines: Buffer[], left: Buffer } {
  const lines: Buffer[] = []
  let start = 0
  for (let at = bytes.indexOf(NEWLINE); at !== -1; at = bytes.indexOf(NEWLINE, start)) {
    if (at > start) lines.push(bytes.subarray(start, at))
    start = at + 1
  }
  return { lines, left: bytes.subarray(start) }
}

const OPEN = Buffer.from('{"rows":[')
const COMMA = Buffer.from(',')
const CLOSE = Buffer.from(']}\n')

function joinRows (rows: readonly Buffer[]): Buffer {
  return Buffer.concat([OPEN, ...rows.flatMap((row, index) => index === 0 ? [row] : [COMMA, row]), CLOSE])
}
