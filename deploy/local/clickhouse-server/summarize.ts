import { type Summary } from './answer.ts'
import { type EngineResult } from './engine/engine-session.ts'
import { type QueryRecord } from './watch/query-log.ts'

/** Counts of a query that gave rows; notes them in its record. */
export function summarizeRows (record: QueryRecord, result: EngineResult): Summary {
  const { rows, rowBytes, elapsedSeconds } = result
  const readRows = Math.max(record.readRows, rows)
  const readBytes = Math.max(record.readBytes, rowBytes)
  Object.assign(record, { readRows, readBytes, resultRows: rows })
  const written = { writtenRows: 0, writtenBytes: 0 }
  return { readRows, readBytes, ...written, resultRows: rows, resultBytes: rowBytes, elapsedSeconds }
}

/** Counts of an insert of rows; notes them in its record. */
export function summarizeInsert (record: QueryRecord, result: EngineResult): Summary {
  const { rows, rowBytes, elapsedSeconds } = result
  Object.assign(record, { readRows: rows, readBytes: rowBytes, writtenRows: rows })
  return {
    readRows: rows,
    readBytes: rowBytes,
    writtenRows: rows,
    writtenBytes: rowBytes,
    resultRows: rows,
    resultBytes: rowBytes,
    elapsedSeconds
  }
}
