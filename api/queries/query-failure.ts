import { CLICKHOUSE_ERRORS } from '../../platform/clickhouse/clickhouse-errors.ts'

export interface QueryFailure {
  /** ClickHouse's number; 0 when it did not answer. */
  code: number
  /** Such as `SYNTAX_ERROR`. */
  name: string
  /** ClickHouse's words, without its version. */
  detail: string
  /** What to do; empty when the detail says it. */
  advice: string
  /** Position in the query, in bytes of UTF-8 from 1; one past its end if something is missing there. Null: unknown. */
  position: number | null
}

/** A query that ClickHouse refused or ended, or that it did not take. */
export class QueryFailedError extends Error {
  readonly failure: QueryFailure

  constructor (failure: QueryFailure, options?: ErrorOptions) {
    super(failure.detail, options)
    this.name = 'QueryFailedError'
    this.failure = failure
  }
}

/** Analysts learn which limit a query met; how the limits are set is in `deploy/clickhouse/analyst.sql`. */
const ADVICE: Readonly<Record<number, string>> = {
  36: 'Check the names and the values of the parameters.',
  46: 'There is no function of this name: look at its spelling.',
  47: 'Look at the columns of the table: DESCRIBE TABLE; names of properties are in the text of properties: JSONExtractString(properties, \'plan\').',
  60: 'Look at the tables there are: SHOW TABLES.',
  81: 'Leave the name of the database out.',
  158: 'Limit of rows to read. Ask for fewer days or fewer columns.',
  159: 'Limit of time: 60 seconds. Ask for fewer days, one event name, or try a SAMPLE of the persons by cityHash64(distinct_id) % 10 = 0.',
  160: 'Limit of time: it would take too long. Ask for fewer days, or one event name.',
  164: 'Analysts only read: SELECT, WITH, EXPLAIN, SHOW, DESCRIBE.',
  201: 'Quota of the login: wait until it is renewed, at the latest in an hour.',
  202: 'Too many queries run at once. Try again when one of them has ended.',
  236: 'ClickHouse restarts, or the table is being changed. Try again in a few seconds.',
  241: 'Limit of memory. Ask for fewer days, group by fewer values, or use uniq in the place of uniqExact.',
  307: 'Limit of bytes to read. Ask for fewer days or fewer columns.',
  394: 'It was cancelled in ClickHouse.',
  396: 'Limit of the result: five million rows or 2 GB. Aggregate it, or add a LIMIT.',
  456: 'Give the parameter a value, and save the query with it.',
  457: 'The value of a parameter is not of its type.',
  497: 'The login for analysts may read the tables of Millrace, and use functions that reach no files and no addresses.'
}

/** @param text  As ClickHouse writes it: `Code: 62. DB::Exception: Syntax error: failed at position 8 ...`. */
export function describeFailure (code: number, text: string): QueryFailure {
  const detail = text.trim()
    .replace(/^Code: \d+\. (?:DB::)?\w*Exception: /, '')
    .replace(/ ?\(version [^)]*(?:\([^)]*\))?[^)]*\)\s*$/, '')
    .replace(/\.? ?\(([A-Z][A-Z_]+)\)\s*$/, '')
    .slice(0, 4000)
  const name = /\(([A-Z][A-Z_]{3,})\)(?: \(version|\s*$)/.exec(text)?.[1] ?? CLICKHOUSE_ERRORS[code]?.name ?? `CODE_${code}`
  const position = /failed at position (\d+)/.exec(detail)?.[1]
  return { code, name, detail, advice: ADVICE[code] ?? '', position: position === undefined ? null : Number(position) }
}

export function noAnswer (): QueryFailure {
  return {
    code: 0, name: 'NO_ANSWER', detail: 'ClickHouse does not answer.',
    advice: 'Nothing is lost: events wait until it is back. See Health, and try again then.', position: null
  }
}

/** A bug of the API, or its end; the log tells. */
export function failedUnexpectedly (): QueryFailure {
  return {
    code: 0, name: 'UNEXPECTED', detail: 'The API could not run the query.', advice: 'Try again; if it keeps failing, see the API log.',
    position: null
  }
}

/** The query ran longer than the console waits. */
export function tookTooLong (seconds: number): QueryFailure {
  return {
    code: 159, name: 'TIMEOUT_EXCEEDED', detail: `Running the query and reading its result took more than ${seconds} seconds.`,
    advice: ADVICE[159] ?? '', position: null
  }
}

const EXCEPTION = /(?:^|[\r\n])__exception__\r?\n[\s\S]*?(?=Code: \d+)|(?:^|\n)(?=Code: \d+\. DB::(?:\w+)?Exception: )/

/**
 * What ended a result that had begun: servers write it behind the rows, marked since 25.11.
 *
 * @param rest  The end of a result, from the first line that is not in its format.
 * @returns null without an error.
 */
export function findException (rest: string): QueryFailure | null {
  const mark = EXCEPTION.exec(rest)
  if (mark === null) return null
  const text = rest.slice(mark.index + mark[0].length)
  return describeFailure(Number(/^Code: (\d+)/.exec(text)?.[1] ?? 0), text.replace(/\r?\n\d+ \w+\r?\n__exception__\s*$/, ''))
}
