import { fieldsOf } from '../engines/fields.ts'
import { CLICKHOUSE_ERRORS, clickHouseCodeOf } from './clickhouse/clickhouse-errors.ts'
import { classifyPostgresError } from './postgres/postgres-errors.ts'

/** Names of errors of NATS and Node that an unavailable service causes. */
const UNAVAILABLE_NAMES = new Set([
  'ConnectionError', 'TimeoutError', 'ClosedConnectionError', 'NoRespondersError', 'LeaderlessError', 'RequestError', 'AbortError'
])

/** Messages of errors that carry neither code nor name: of ClickHouse's client and of JetStream. */
const UNAVAILABLE_MESSAGE = /^Timeout error\.$|^timeout$|system temporarily unavailable|heartbeats? missed/i

/**
 * Whether an error, or a cause of it, says that a service refuses connections, hangs or is gone: expected in an outage,
 * where the stack of the caller says nothing.
 */
export function isUnavailable (error: unknown): boolean {
  for (let at = error, depth = 0; typeof at === 'object' && at !== null && depth < 5; depth++) {
    const { name, message, cause } = fieldsOf(at)
    if (UNAVAILABLE_NAMES.has(String(name))) return true
    if (classifyPostgresError(at).isDown === true) return true
    if (CLICKHOUSE_ERRORS[clickHouseCodeOf(at) ?? -1]?.isDown === true) return true
    if (typeof message === 'string' && UNAVAILABLE_MESSAGE.test(message)) return true
    at = cause
  }
  return false
}
