import { createHash } from 'node:crypto'
import type { ClickHouseSettings } from '@clickhouse/client'
import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { INSERT_SETTINGS, INSERT_SETTINGS_VERSION } from '../../../pipeline/events/insert/insert-frames.ts'

const ROWS = 500
/** Not of the project that the other steps count. */
const PROJECT = 7

/** Inserts the rows of a token as the pipeline inserts a batch range: the same rows and settings each time. */
export async function insertWithToken (
  client: ClickHouse, token: string, settings: ClickHouseSettings = {}
): Promise<void> {
  await client.insert({
    table: 'events',
    format: 'JSONEachRow',
    columns: ['project_id', 'uuid', 'event', 'distinct_id', 'timestamp', 'property_types'],
    values: Array.from({ length: ROWS }, (_, index) => ({
      project_id: PROJECT,
      uuid: uuidOf(`${token} ${index}`),
      event: token,
      distinct_id: `${index}`,
      timestamp: `2026-11-0${1 + index % 9} 00:00:00.000`,
      property_types: 'eSplan\0eNcount'
    })),
    clickhouse_settings: {
      ...INSERT_SETTINGS[INSERT_SETTINGS_VERSION],
      distributed_foreground_insert: 1, insert_deduplication_token: token, ...settings
    }
  })
}

/** @throws when the rows of a token do not count once, in the table and in its views. */
export async function readCounts (client: ClickHouse, token: string): Promise<string> {
  const [row] = await queryRows<Record<'events' | 'volumes' | 'properties', number>>(client, `
    SELECT toUInt32((SELECT count() FROM events WHERE event = {token:String} SETTINGS final = 0)) AS events,
      toUInt32((SELECT sum(volume) FROM event_volumes_by_day WHERE event = {token:String})) AS volumes,
      toUInt32((SELECT sum(count) FROM event_property_counts WHERE event = {token:String} AND property = 'plan')) AS properties`, { token })
  const counts = [row?.events, row?.volumes, row?.properties]
  if (counts.some((count) => count !== ROWS)) throw new Error(`${ROWS} rows are counted as ${counts.join(', ')}`)
  return `${ROWS} rows`
}

function uuidOf (text: string): string {
  const hex = createHash('md5').update(text).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-7${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`
}
