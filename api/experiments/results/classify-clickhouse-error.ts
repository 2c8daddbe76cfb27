import { ClickHouseError } from '@clickhouse/client'
import { HttpError } from '../../../platform/errors.ts'

/** Codes of ClickHouse that say "not now": too many queries, memory, timeout, network, starting or stopping. */
const BUSY = new Set(['159', '160', '173', '202', '209', '210', '241', '242', '252', '279', '319', '394', '425', '439', '999'])

/**
 * What a failed read means to the client of the API: 503 when ClickHouse is unavailable or busy. A query that
 * ClickHouse refuses is a bug, and passes on.
 */
export function classifyClickHouseError (error: unknown): unknown {
  if (error instanceof ClickHouseError && !BUSY.has(error.code)) return error
  return new HttpError(503, 'server_error', 'clickhouse_unavailable',
    'Results need ClickHouse, which is not available at the moment; try again later.', { cause: error, action: 'retry' })
}
