import { WHOLE_TABLES } from '../migrate/clickhouse-topology.ts'

/**
 * How a table is carried from one ClickHouse to another. Rows of both sides are compared in groups (a day, a share of
 * the keys), each with a checksum that does not depend on order, and groups that differ are copied.
 */
export interface MovedTable {
  name: string
  /** SQL of the group of a row, a UInt32. */
  group: string
  /** Rows to compare: merged, because both sides merge when they like. `$where` is replaced. */
  merged: (columns: string) => string
  /** Columns, or expressions, of a merged row that make its checksum. */
  hashed: readonly string[]
  /** Rows to copy. Default: `merged`. Replacing tables are copied as they are, tombstones included. */
  raw?: boolean
  /** Repeated rows count once, so groups are added to existing rows. Otherwise existing rows are removed first. */
  isRepeatable: boolean
  /** Rows that are about to expire leave each side at another time. */
  condition?: string
}

/** A row is on every node of a cluster, or on one shard. */
export function isWhole (table: string): boolean {
  return WHOLE_TABLES.includes(table)
}

const final = (table: string) => (columns: string): string => `SELECT ${columns} FROM ${table} FINAL WHERE $where`
const raw = (table: string) => (columns: string): string => `SELECT ${columns} FROM ${table} WHERE $where`

const grouped = (table: string, keys: readonly string[], sums: Record<string, string>) => (): string =>
  `SELECT ${[...keys, ...Object.entries(sums).map(([column, fold]) => `${fold}(t.${column}) AS ${column}`)].join(', ')}
    FROM ${table} AS t WHERE $where GROUP BY ${keys.join(', ')}`

/** Of a table that holds the newest copy of each row, by key. */
function copies (name: string, keys: readonly string[], columns: readonly string[]): MovedTable {
  return {
    name, group: `toUInt32(cityHash64(${keys.join(', ')}) % 64)`, merged: final(name), raw: true, isRepeatable: true,
    hashed: [...keys, ...columns, 'version']
  }
}

/** Of a table that a view fills: sums by key. */
function sums (name: string, keys: readonly string[], column: string): MovedTable {
  return {
    name, group: 'toUInt32(0)', merged: grouped(name, keys, { [column]: 'sum', ...SEEN }), isRepeatable: false,
    hashed: [...keys, column, ...Object.keys(SEEN)]
  }
}

const LEDGER_KEY = ['project_id', 'minute', 'source']
const WARNING_KEY = ['project_id', 'minute', 'reason', 'source']
const SEEN = { last_seen: 'max', last_inserted: 'max', first_seen: 'min' }

/** Everything that inserts and people rely on and that no other table could give back, but `events`. */
export const MOVED_TABLES: readonly MovedTable[] = [
  copies('persons', ['project_id', 'person_id'], ['properties', 'is_identified', 'created_at']),
  copies('person_distinct_ids', ['project_id', 'distinct_id'], ['person_id']),
  copies('person_overrides', ['project_id', 'old_person_id'], ['person_id']),
  copies('groups', ['project_id', 'group_type', 'group_key'], ['group_type_index', 'properties', 'created_at']),
  {
    name: 'ledger_by_source',
    group: "toYYYYMMDD(minute, 'UTC')",
    merged: grouped('ledger_by_source', LEDGER_KEY, Object.fromEntries(
      ['accepted', 'replayed', 'duplicates', 'dead_lettered', 'deletions_begun', 'deletions_done'].map((column) => [column, 'max']))),
    hashed: [...LEDGER_KEY, 'accepted', 'replayed', 'duplicates', 'dead_lettered', 'deletions_begun', 'deletions_done'],
    isRepeatable: true
  },
  {
    name: 'ingestion_warnings_by_source',
    group: "toYYYYMMDD(minute, 'UTC')",
    merged: grouped('ingestion_warnings_by_source', WARNING_KEY, { effect: 'anyLast', count: 'max', samples: 'groupUniqArrayArray' }),
    hashed: [...WARNING_KEY, 'toString(effect)', 'count', 'arraySort(samples)'],
    isRepeatable: true,
    condition: 'minute > now() - toIntervalDay(89)'
  },
  {
    name: 'event_traces',
    group: "toYYYYMMDD(at, 'UTC')",
    merged: final('event_traces'),
    raw: true,
    hashed: ['project_id', 'uuid', 'toString(kind)', 'at', 'process', 'reason', 'partition', 'sequence', 'row', 'distinct_id_hash'],
    isRepeatable: true,
    condition: 'at > now() - toIntervalDay(29)'
  }
]

/**
 * Tables that views fill from inserts into `events`. They keep what retention removed from `events`, so they cannot
 * follow from it: what the views of the target counted while events were copied is replaced by the rows of the source.
 */
export const VIEW_FED_TABLES: readonly MovedTable[] = [
  sums('event_volumes_by_day', ['project_id', 'event', 'day'], 'volume'),
  sums('event_property_counts', ['project_id', 'event', 'kind', 'group_type', 'property', 'type'], 'count')
]

/** Groups of events: a UTC day, cut into shares that follow the order of the table. */
export const EVENTS_GROUP = 'toYYYYMMDD(timestamp)'
export const EVENT_SHARES = 64
export const EVENTS_SHARE = 'toUInt32(bitShiftRight(cityHash64(distinct_id), 58))'

export const EVENTS: MovedTable = {
  name: 'events', group: EVENTS_GROUP, merged: raw('events'), raw: true, isRepeatable: false,
  hashed: ['uuid', 'event', 'distinct_id', 'timestamp', 'inserted_at']
}
