/** The SQL of a move between two ClickHouse. Texts only; `cli/move` runs them. */
import { EVENT_IDENTITY, EVENT_PROPERTIES_HASH } from '../wire/event-row.ts'
import { ANSWERING_NODES } from '../migrate/clickhouse-topology.ts'
import { EVENTS, EVENTS_GROUP, EVENTS_SHARE, type MovedTable } from './moved-tables.ts'

/** Rows of a group on one side. */
export interface GroupDigest {
  /** `YYYYMMDD` of events; what `MovedTable.group` says of other tables. */
  group: number
  /** Part of the group, of events; else 0. */
  share: number
  rows: number
  checksum: string
  /** Latest `inserted_at` of events, in epoch milliseconds; else 0. */
  last: number
}

/** Which rows of `events` a statement is about. */
export interface EventsSpan {
  /** `YYYYMM` */
  month: number
  /** Only events inserted before this time, epoch milliseconds. Absent: all. */
  before?: number | undefined
  groups?: readonly number[] | undefined
  shares?: readonly number[] | undefined
  /** Only events inserted after this time, by share. */
  after?: readonly number[] | undefined
  /** Only events inserted up to this time, by share. */
  through?: readonly number[] | undefined
}

/** A row where the tables are those of a cluster. */
export const FIND_ALL_SHARDS = "SELECT 1 FROM system.databases WHERE name = concat(currentDatabase(), '_all')"

const INSERTED = 'toUnixTimestamp64Milli(inserted_at)'
const toDate = (group: number): string => `'${String(group).replace(/^(\d{4})(\d\d)(\d\d)$/, '$1-$2-$3')}'`

export function whereEvents ({ month, before, groups, shares, after, through }: EventsSpan): string {
  const ofShare = (times: readonly number[]): string => `arrayElement([${times.join()}], ${EVENTS_SHARE} + 1)`
  return [
    `toYYYYMM(timestamp) = ${month}`,
    // The table is ordered by it.
    ...groups === undefined ? [] : [`toDate(timestamp) IN (${groups.map(toDate).join()})`],
    ...shares === undefined ? [] : [`${EVENTS_SHARE} IN (${shares.join()})`],
    ...before === undefined ? [] : [`${INSERTED} < ${before}`],
    ...after === undefined ? [] : [`${INSERTED} > ${ofShare(after)}`],
    ...through === undefined ? [] : [`${INSERTED} <= ${ofShare(through)}`]
  ].join(' AND ')
}

export function whereGroups (table: MovedTable, groups?: readonly number[]): string {
  const conditions = [...table.condition === undefined ? [] : [table.condition], ...groups === undefined ? [] : [`${table.group} IN (${groups.join()})`]]
  return conditions.length === 0 ? '1' : conditions.join(' AND ')
}

/** Months that have events, with their rows. */
export const LIST_MONTHS = 'SELECT toYYYYMM(timestamp) AS month, toFloat64(count()) AS rows FROM events GROUP BY month ORDER BY month SETTINGS final = 0'

/** `GroupDigest` of each group. */
export function digestGroups (table: MovedTable, where: string): string {
  const isEvents = table === EVENTS
  const columns = isEvents ? `timestamp, inserted_at, ${table.hashed.filter((name) => !/^(timestamp|inserted_at)$/.test(name)).join()}` : '*'
  return `SELECT ${table.group} AS "group", ${isEvents ? EVENTS_SHARE : '0'} AS share, toFloat64(count()) AS rows,
      concat(toString(groupBitXor(cityHash64(${table.hashed.join()}) AS hash)), ' ', toString(sum(hash))) AS checksum,
      ${isEvents ? `toFloat64(${INSERTED.replace('inserted_at', 'max(inserted_at)')})` : '0'} AS last
    FROM (${table.merged(columns).replace('$where', where)})
    GROUP BY "group", share ORDER BY "group", share SETTINGS final = 0`
}

/** Rows as they are copied. */
export function selectRows (table: MovedTable, columns: readonly string[], where: string): string {
  const list = columns.join()
  return table.raw === true
    ? `SELECT ${list} FROM ${table.name} WHERE ${where} SETTINGS final = 0`
    : `SELECT ${list} FROM (${table.merged('*').replace('$where', where)})`
}

/** A day of one event on one side, as the proof compares it. */
export interface EventDigest {
  day: number
  event: string
  count: number
  checksum: string
}

/**
 * `EventDigest` of each day and event: count, XOR and sum of the identity of events, and sum of it with all other
 * columns.
 *
 * @param isMerged  A row with the same key twice counts once, and only what makes it an event is compared.
 */
export function digestEvents (columns: readonly string[], where: string, { isMerged }: { isMerged: boolean }): string {
  const others = columns.filter((name) => name !== '`properties`').join()
  return `SELECT ${EVENTS_GROUP} AS day, event, toFloat64(count()) AS count,
      concat(toString(groupBitXor(${EVENT_IDENTITY} AS identity)), ' ', toString(sum(identity)), ' ',
        toString(${isMerged ? '0' : `sum(bitXor(bitXor(identity, ${EVENT_PROPERTIES_HASH}), cityHash64(${others})))`})) AS checksum
    FROM events ${isMerged ? 'FINAL' : ''} WHERE ${where} GROUP BY day, event ORDER BY day, event SETTINGS final = 0`
}

export const insertRows = (table: string, columns: readonly string[]): string => `INSERT INTO ${table} (${columns.join()}) FORMAT Native`
export const deleteRows = (table: string, onCluster: string, where: string): string => `DELETE FROM ${table} ${onCluster} WHERE ${where}`
export const emptyTable = (table: string, onCluster: string): string => `TRUNCATE TABLE ${table} ${onCluster}`

/** Columns of a table that hold what was stored, promoted properties included. */
export const LIST_STORED_COLUMNS = `SELECT name, type, default_kind AS kind, default_expression AS expression, comment, compression_codec AS codec
  FROM system.columns WHERE database = currentDatabase() AND table = {table: String} AND default_kind IN ('', 'DEFAULT') ORDER BY position`

/**
 * A table with this setting takes no insert, and says `TOO_MANY_PARTS`, which every writer of Millrace tries again:
 * events wait in the stream, persons in Postgres. Queries, merges and deletions go on.
 */
const CLOSED = 'max_parts_in_total'

export const closeTable = (table: string, onCluster: string): string => `ALTER TABLE ${table} ${onCluster} MODIFY SETTING ${CLOSED} = 0`
export const openTable = (table: string, onCluster: string): string => `ALTER TABLE ${table} ${onCluster} RESET SETTING ${CLOSED}`

/** Tables that take no inserts on a node that answers. */
export const listClosed = (tables: string): string => `SELECT DISTINCT name FROM ${tables}
  WHERE database = {database: String} AND position(engine_full, '${CLOSED} = 0') > 0 SETTINGS ${ANSWERING_NODES}`

/** Those of `names` that take inserts. */
export const findOpen = (tables: string): string => `SELECT name FROM ${tables}
  WHERE database = {database: String} AND name IN {names: Array(String)} AND position(engine_full, '${CLOSED} = 0') = 0`

/** Inserts under way, into `database` or from a client that is connected to it. */
export const findInserts = (processes: string): string => `SELECT query_id AS name FROM ${processes} WHERE query_kind = 'Insert'
  AND (startsWith(current_database, {database: String}) OR position(query, concat({database: String}, '.')) > 0)`

/** Deletions under way. */
export const findMutations = (mutations: string): string =>
  `SELECT mutation_id AS name FROM ${mutations} WHERE database = {database: String} AND NOT is_done`

/** Clock of a server, in epoch milliseconds. */
export const READ_CLOCK = 'SELECT toFloat64(toUnixTimestamp64Milli(now64(3))) AS now'
export const FIND_MIGRATIONS = "SELECT 1 FROM system.tables WHERE database = currentDatabase() AND name = 'schema_migrations'"
/** What tells a table from one of the same name elsewhere. */
export const READ_TABLE_ID = "SELECT toString(uuid) AS id FROM system.tables WHERE database = currentDatabase() AND name = 'events'"

/** Bytes of all tables of a database; free bytes of each disk once. */
export const sumBytes = (parts: string, database: string): string =>
  `SELECT toFloat64(sum(bytes_on_disk)) AS bytes FROM ${parts} WHERE active AND database = ${database}`
export const sumFreeBytes = (disks: string): string =>
  `SELECT toFloat64(sum(bytes)) AS bytes FROM (SELECT max(unreserved_space) AS bytes FROM ${disks} GROUP BY path, hostName())`

/** Uuids of some events. DISTINCT of the whole table would hold each uuid in memory: 3 GB of 30 million. */
export const sampleUuids = (limit: number): string =>
  `SELECT DISTINCT toString(uuid) AS uuid FROM (SELECT uuid FROM events ORDER BY cityHash64(uuid) LIMIT ${limit}) SETTINGS final = 0`
export const COUNT_UUIDS = 'SELECT toFloat64(uniqExact(uuid)) AS n FROM events WHERE uuid IN {uuids: Array(UUID)} SETTINGS final = 0'
