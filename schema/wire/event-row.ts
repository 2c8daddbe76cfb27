/**
 * The row layout: which columns a frame carries, in order, with the types its Native block declares.
 *
 * Every change of the columns takes the next number. The header of a Native block names its columns, so a writer
 * understands all earlier layouts: ClickHouse fills missing columns with defaults. A writer that meets a later one
 * waits for a newer version of itself. So the order of an upgrade is: schema, pipeline, ingest
 * (docs/run/operations.md). New columns go to the end, and none is ever taken away: a frame in the stream may be as old
 * as the longest outage. A frame leaves out groups, `without_person` and promoted columns that are empty in all its
 * rows, unless the table has a DEFAULT for them, which costs ClickHouse more to compute than to read. Frames of earlier
 * versions also leave out schema versions, marks of bots, countries and weights that are their default. The others are
 * always there.
 *
 * 1: until `ip`. 2: `schema_version`. 3: `is_bot`, `country`. 4: `sample_weight`. 5: `without_person`.
 *
 * `LowCardinality` columns are dictionary-encoded at the edge already, which is cheaper for both sides than plain
 * strings.
 */
export const ROW_LAYOUT = 5

/** The Native types a frame may use. */
export type ColumnType =
  | 'UInt32'
  | 'Int32'
  | 'Bool'
  | 'Float64'
  | 'UUID'
  | 'DateTime64(3)'
  | 'String'
  | 'LowCardinality(String)'
  | 'Map(String, String)'

export interface EventColumn {
  name: string
  type: ColumnType
  /** The property whose text value is promoted into this column; its events keep it in `properties` as well. */
  promotes?: string
  /** Of a row whose frame leaves the column out; that of the type (0, empty) when it is not said. */
  default?: number
  /** The table has a DEFAULT for a promoted column, so that frames do not leave it out. */
  hasDefault?: true
}

export const EVENT_COLUMNS = [
  { name: 'project_id', type: 'UInt32' },
  { name: 'uuid', type: 'UUID' },
  { name: 'event', type: 'LowCardinality(String)' },
  { name: 'distinct_id', type: 'String' },
  { name: 'timestamp', type: 'DateTime64(3)' },
  { name: 'received_at', type: 'DateTime64(3)' },
  { name: 'groups', type: 'Map(String, String)' },
  { name: 'properties', type: 'String' },
  { name: 'property_types', type: 'LowCardinality(String)' },
  { name: 'session_id', type: 'String', promotes: '$session_id' },
  { name: 'window_id', type: 'String', promotes: '$window_id' },
  { name: 'device_id', type: 'String', promotes: '$device_id' },
  { name: 'current_url', type: 'String', promotes: '$current_url' },
  { name: 'host', type: 'LowCardinality(String)', promotes: '$host' },
  { name: 'pathname', type: 'String', promotes: '$pathname' },
  { name: 'referring_domain', type: 'LowCardinality(String)', promotes: '$referring_domain' },
  { name: 'screen_name', type: 'LowCardinality(String)', promotes: '$screen_name' },
  { name: 'browser', type: 'LowCardinality(String)', promotes: '$browser' },
  { name: 'browser_version', type: 'LowCardinality(String)', promotes: '$browser_version' },
  { name: 'os', type: 'LowCardinality(String)', promotes: '$os' },
  { name: 'device_type', type: 'LowCardinality(String)', promotes: '$device_type' },
  { name: 'lib', type: 'LowCardinality(String)', promotes: '$lib' },
  { name: 'lib_version', type: 'LowCardinality(String)', promotes: '$lib_version' },
  { name: 'utm_source', type: 'LowCardinality(String)', promotes: 'utm_source' },
  { name: 'utm_medium', type: 'LowCardinality(String)', promotes: 'utm_medium' },
  { name: 'utm_campaign', type: 'LowCardinality(String)', promotes: 'utm_campaign' },
  { name: 'feature_flag', type: 'LowCardinality(String)', promotes: '$feature_flag' },
  { name: 'feature_flag_response', type: 'LowCardinality(String)', promotes: '$feature_flag_response' },
  { name: 'ip', type: 'String', promotes: '$ip' },
  { name: 'schema_version', type: 'Int32' },
  { name: 'is_bot', type: 'Bool' },
  { name: 'country', type: 'LowCardinality(String)', promotes: '$geoip_country_code', hasDefault: true },
  { name: 'sample_weight', type: 'Float64', default: 1 },
  { name: 'without_person', type: 'Bool' }
] as const satisfies readonly EventColumn[]

/**
 * `property_types` of a row: the names and types of the properties the event was sent with.
 *
 * Entries joined by NUL, each `<kind><type><name>`:
 * - kind `e` a property of the event, `p` of its person (`$set`, `$set_once`), `g` of a group (`$group_set`), whose
 *   name is `<group type>\x01<name>`;
 * - type `S` String, `N` Numeric, `B` Boolean, `D` DateTime, `?` none (null, array, object);
 * - names are free of NUL, group types and names of a group's properties also of \x01 (replaced at ingest), and at most
 *   200 bytes.
 *
 * Rows with equal shape share one text, so it costs a dictionary index a row; materialized views split it.
 */
export const PROPERTY_TYPE_CODES = { String: 'S', Numeric: 'N', Boolean: 'B', DateTime: 'D', none: '?' } as const
export const PROPERTY_ENTRY_SEPARATOR = '\0'
export const GROUP_TYPE_SEPARATOR = '\x01'

/**
 * SQL of the hash by which a stored event is compared with one somewhere else: sipHash64 of uuid, name, distinct id and
 * time (epoch milliseconds), joined by line feeds.
 */
export const EVENT_IDENTITY =
  "sipHash64(concat(toString(uuid), '\\n', event, '\\n', distinct_id, '\\n', toString(toUnixTimestamp64Milli(timestamp))))"

/** SQL of the hash of the properties as they are stored. */
export const EVENT_PROPERTIES_HASH = 'sipHash64(properties)'
