import { once } from 'node:events'
import { type PassThrough, Transform } from 'node:stream'
import type { ClickHouseAddress } from '../../platform/clickhouse/connect-clickhouse.ts'
import { type AnalystQuery, askClickHouse, type Progress } from './ask-clickhouse.ts'
import { failedUnexpectedly, QueryFailedError, type QueryFailure, tookTooLong } from './query-failure.ts'
import { EXACT_VALUES, type SendLine, streamResult } from './stream-result.ts'
import { HttpError } from '../../engines/errors.ts'
import { createSemaphore, type Semaphore } from '../../platform/semaphore.ts'

const MAX_RESULT_BYTES = 8_388_608

interface Answering {
  clickhouse: ClickHouseAddress
  asked: AnalystQuery
  maxRows: number
  stream: PassThrough
  signal: AbortSignal
}

/**
 * Writes progress, rows and end of a query as lines of JSON; every failure is one, too.
 *
 * @returns how many rows there were; undefined for a query that failed.
 */
export async function answerQuery (
  { clickhouse, asked, maxRows, stream, signal }: Answering
): Promise<number | undefined> {
  const startedAt = performance.now()
  const last = { read_rows: 0, read_bytes: 0 }
  const onProgress = (progress: Progress): void => {
    Object.assign(last, progress)
    if (!stream.writableNeedDrain) stream.write(`${JSON.stringify({ progress })}\n`)
  }
  const send: SendLine = async (line) => {
    if (!stream.write(line)) await once(stream, 'drain', { signal })
  }
  stream.write(`${JSON.stringify({ query_id: asked.queryId })}\n`)
  try {
    // One row more tells whether there are more.
    const settings = { ...EXACT_VALUES, limit: String(maxRows + 1) }
    const answer = await askClickHouse(clickhouse, { ...asked, settings }, { signal, onProgress })
    const end = await streamResult(answer, { rows: maxRows, bytes: MAX_RESULT_BYTES }, send)
    // An answer that was broken off here looks like one that broke.
    signal.throwIfAborted()
    if ('detail' in end) {
      writeFailure(stream, end)
      return undefined
    }
    // The more recent of the two.
    const read = end.read_rows > last.read_rows ? {} : last
    await send(`${JSON.stringify({ end: { ...end, ...read, ms: performance.now() - startedAt } })}\n`)
    return end.rows
  } catch (error) {
    if (stream.destroyed) return
    const cause: unknown = signal.aborted ? signal.reason : error
    writeFailure(stream, cause instanceof QueryFailedError ? cause.failure : failedUnexpectedly())
    if (!signal.aborted && !(cause instanceof QueryFailedError)) throw error
  }
}

function writeFailure (stream: PassThrough, failure: QueryFailure): void {
  stream.write(`${JSON.stringify({ error: failure })}\n`)
}

/** Queries that may run at once through one API process: fewer than ClickHouse lets analysts run. */
const MAX_QUERIES = 6

/** And of these, of one personal key. */
const MAX_QUERIES_PER_KEY = 2

/** A query that ends with its time, its client, or the process. */
export interface RunningQuery {
  signal: AbortSignal
  cancel: () => void
  /** Gives its place back; to be called once. */
  end: () => void
}

/** The queries of one API process. Bounds how many run at once, so that one analyst does not block the others. */
export class RunningQueries {
  readonly #all = createSemaphore({ limit: MAX_QUERIES })
  readonly #byKey = new Map<string, Semaphore>()
  readonly #running = new Set<AbortController>()

  /**
   * Takes a place for a query.
   *
   * @param seconds  After so long it is cancelled, with a `QueryFailedError` as the reason.
   * @throws {HttpError} 429 when no place is free.
   */
  begin (keyHash: string, seconds: number): RunningQuery {
    const release = this.#takePlace(keyHash)
    const stop = new AbortController()
    const timer = setTimeout(() => stop.abort(new QueryFailedError(tookTooLong(seconds))), seconds * 1000)
    this.#running.add(stop)
    return {
      signal: stop.signal,
      cancel: () => stop.abort(),
      end: () => {
        clearTimeout(timer)
        this.#running.delete(stop)
        release()
      }
    }
  }

  cancelAll (): void {
    for (const query of this.#running) query.abort()
  }

  #takePlace (keyHash: string): () => void {
    const own = this.#byKey.get(keyHash) ?? createSemaphore({ limit: MAX_QUERIES_PER_KEY })
    const releaseOwn = own.tryAcquire()
    if (releaseOwn === null) {
      throw new HttpError(429, 'throttled_error', 'throttled',
        `${MAX_QUERIES_PER_KEY} of your queries are already running; cancel one or wait for one to finish.`)
    }
    const releaseShared = this.#all.tryAcquire()
    if (releaseShared === null) {
      releaseOwn()
      throw new HttpError(429, 'throttled_error', 'throttled', 'Too many queries are running; try again in a moment.')
    }
    this.#byKey.set(keyHash, own)
    return () => {
      releaseShared()
      releaseOwn()
      if (own.isIdle) this.#byKey.delete(keyHash)
    }
  }
}

const QUOTE = 0x22

/** With what a spreadsheet takes a cell for a formula: = + - @, tab and carriage return. */
const BEGINS_FORMULA = new Set([0x3d, 0x2b, 0x2d, 0x40, 0x09, 0x0d])

const APOSTROPHE = Buffer.from('\'')

/**
 * Passes CSV of ClickHouse on, and begins each text with an apostrophe that a spreadsheet would run as a formula: names
 * and properties of events are what anybody sent. Numbers, which are not quoted, stay as they are.
 *
 * Tells where a text begins by quotes alone, so that it does so with any delimiter: a quote outside of a text begins
 * one, unless it follows the quote that seemed to end one, as quotes in a text are doubled.
 */
export function guardFormulas (): Transform {
  let isInText = false
  /** The last byte ended a text, or seemed to. */
  let hasEnded = false
  /** The last byte began a text. */
  let hasBegun = false
  return new Transform({
    transform (chunk: Buffer, _, done) {
      const out: Uint8Array[] = []
      let from = 0
      const guard = (at: number): void => {
        if (!BEGINS_FORMULA.has(chunk[at] ?? 0)) return
        out.push(chunk.subarray(from, at), APOSTROPHE)
        from = at
      }
      if (hasBegun && chunk.length > 0) guard(0)
      if (chunk.length > 0) hasBegun = false
      let ended = hasEnded ? -1 : -2
      for (let at = chunk.indexOf(QUOTE); at !== -1; at = chunk.indexOf(QUOTE, at + 1)) {
        const isDoubled = !isInText && at === ended + 1
        if (isInText) ended = at
        else if (!isDoubled && at + 1 < chunk.length) guard(at + 1)
        else if (!isDoubled) hasBegun = true
        isInText = !isInText
      }
      if (chunk.length > 0) hasEnded = !isInText && ended === chunk.length - 1
      out.push(chunk.subarray(from))
      done(null, Buffer.concat(out))
    }
  })
}
