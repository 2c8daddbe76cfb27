import { type ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { classifyClickHouseError } from './classify-clickhouse-error.ts'
import { loadQuery } from './load-query.ts'

const QUERY = loadQuery('requires-flag-implementation')

export interface FlagImplementation {
  event: string
  /** Events of the last seven days that were looked at, 20 at most. */
  looked_at: number
  /** How many of them carried a property beginning with `$feature/`. */
  with_flags: number
}

/**
 * Looks whether the SDK sends the values of flags with the given events.
 *
 * @throws {HttpError} 503 when ClickHouse is unavailable or too busy.
 */
export async function lookForFlags (
  clickhouse: ClickHouse, projectId: number, events: readonly string[]
): Promise<FlagImplementation[]> {
  try {
    const result = await clickhouse.query({
      query: QUERY,
      query_params: { project_id: projectId, events },
      format: 'JSONEachRow',
      clickhouse_settings: { output_format_json_quote_64bit_integers: 0, max_execution_time: 30 }
    })
    const rows = await result.json<FlagImplementation>()
    return events.map((event) => rows.find((row) => row.event === event) ?? { event, looked_at: 0, with_flags: 0 })
  } catch (error) {
    throw classifyClickHouseError(error)
  }
}
