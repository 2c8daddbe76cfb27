import { HttpError } from '../../engines/errors.ts'
import { classifyClickHouseError } from '../../platform/clickhouse/clickhouse-errors.ts'
import { queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'

/** What ClickHouse answers when a limit of time ended a query. */
const TIMEOUTS: ReadonlySet<number> = new Set([159, 160])

/** How the client says that it waited long enough. */
const CLIENT_TIMEOUT = 'Timeout error.'

/**
 * The answer to an error of a ClickHouse query: 503 when the same request may succeed later, which tells a query that
 * took too long from a ClickHouse that does not answer. Any other comes back as it is, and becomes a 500: a bug or a
 * fault of the installation.
 *
 * @param what  Role of ClickHouse in the request, if worth mentioning: `which has the events of the person`.
 */
export function describeClickHouseError (error: unknown, what = ''): unknown {
  const { action } = classifyClickHouseError(error)
  if (error instanceof HttpError || action !== 'retry') return error
  const clause = what === '' ? '' : `, ${what},`
  if (isTimeout(error)) {
    const message = error instanceof Error ? error.message : ''
    const limit = limitIn(message)
    return tookTooLong(`ClickHouse${clause} took longer than ${limit === null ? 'this may take' : `the ${limit} that this may take`}; try again later.`, error)
  }
  return new HttpError(503, 'server_error', 'clickhouse_unavailable',
    `ClickHouse${clause} is unavailable; try again later.`, { cause: error, action })
}

/** The rows of a query, for an answer. @throws as `describeClickHouseError` says. */
export async function askRows<T> (...query: Parameters<typeof queryRows>): Promise<T[]> {
  return await queryRows<T>(...query).catch((error: unknown) => { throw describeClickHouseError(error) })
}

/** Whether a limit of time ended the query. */
export function isTimeout (error: unknown): boolean {
  if (error instanceof Error && error.message === CLIENT_TIMEOUT) return true
  return TIMEOUTS.has(classifyClickHouseError(error).code)
}

/** A query that nobody waits for any longer, while ClickHouse may be well. */
export function tookTooLong (detail: string, cause?: unknown): HttpError {
  return new HttpError(503, 'server_error', 'clickhouse_timeout', detail, { cause, action: 'retry' })
}

/** `Timeout exceeded: elapsed 5000.9 ms, maximum: 5000 ms`; servers before 25 write seconds. */
function limitIn (message: string): string | null {
  const [, maximum, ms] = /maximum: ([\d.]+)( ms)?/.exec(message) ?? []
  return maximum === undefined ? null : `${Number(maximum) / (ms === undefined ? 1 : 1000)} s`
}
