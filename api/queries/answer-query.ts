import { once } from 'node:events'
import type { PassThrough } from 'node:stream'
import type { ClickHouseAddress } from '../../platform/clickhouse/connect-clickhouse.ts'
import { type AnalystQuery, askClickHouse, type Progress } from './ask-clickhouse.ts'
import { failedUnexpectedly, type QueryFailure, QueryFailedError } from './query-failure.ts'
import { EXACT_VALUES, type SendLine, streamResult } from './stream-result.ts'

/** Bytes of the rows of a result. */
const MAX_RESULT_BYTES = 8_388_608

interface Answering {
  clickhouse: ClickHouseAddress
  asked: AnalystQuery
  maxRows: number
  stream: PassThrough
  signal: AbortSignal
}

/** Writes progress, rows and end of a query as lines of JSON; every failure is one, too. */
export async function answerQuery ({ clickhouse, asked, maxRows, stream, signal }: Answering): Promise<void> {
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
    if ('detail' in end) return writeFailure(stream, end)
    // Whichever of the two was told later.
    const read = end.read_rows > last.read_rows ? {} : last
    await send(`${JSON.stringify({ end: { ...end, ...read, ms: performance.now() - startedAt } })}\n`)
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
