/**
 * What `millrace check clickhouse` asks, and what the answers of nodes say about a cluster: texts of SQL, of which
 * system tables of all nodes are parameters, and comparisons without I/O.
 */
import { ANSWERING_NODES, pathInKeeper } from './migrate/clickhouse-topology.ts'

/** `own`: the node that is asked. `migrated`: it has the database. */
export interface ClusterNode { shard: number, node: string, own: number, migrated: number }
/** Every node by its place in the cluster's definition. */
export const LIST_NODES = `SELECT shard_num AS shard, concat(host_name, ':', toString(port)) AS node, is_local AS own,
    toUInt32((SELECT count() FROM system.databases WHERE name = {database: String})) AS migrated
  FROM system.clusters WHERE cluster = {cluster: String} ORDER BY shard_num, replica_num`

/** What every node is asked about itself: columns of a table of `system`, which make a `Row`. */
export interface NodeQuestion<Row> { table: string, columns: string, rest?: string, row?: Row }
/** Rows of the answers of nodes. */
type Answers<Question> = Question extends NodeQuestion<infer Row> ? readonly (Row & { place: number })[] : never

export const NODE_VERSION: NodeQuestion<{ version: string, now: number }> = { table: 'one', columns: 'version() AS version, toFloat64(nowInBlock64(6)) * 1000 AS now' }
export const NODE_DEFINITION: NodeQuestion<{ nodes: string, internal: number, own: number }> = {
  table: 'clusters', rest: 'WHERE cluster = {cluster: String} GROUP BY place', columns: `toUInt32(min(internal_replication)) AS internal, toUInt32(sum(is_local)) AS own,
    arrayStringConcat(arrayMap(each -> each.3, arraySort(groupArray((shard_num, replica_num, concat(toString(shard_num), '/', host_name, ':', toString(port)))))), ' ') AS nodes`
}
export const NODE_MACROS: NodeQuestion<{ macro: string, substitution: string }> = { table: 'macros', columns: 'macro, substitution' }
export interface ReplicaRow {
  name: string, path: string, own: string, all: number, active: number, delay: number, frozen: number
}
export const NODE_REPLICAS: NodeQuestion<ReplicaRow> = {
  table: 'replicas', rest: 'WHERE database = currentDatabase()', columns: `table AS name, zookeeper_path AS path, getMacro('shard') AS own, toUInt32(total_replicas) AS all, toUInt32(active_replicas) AS active,
    toUInt32(absolute_delay) AS delay, is_readonly AS frozen`
}
/** Mean wait for an answer of Keeper. */
export const NODE_KEEPER: NodeQuestion<{ ms: number }> = {
  table: 'events', rest: 'GROUP BY place', columns: `toFloat64(sumIf(value, event = 'ZooKeeperWaitMicroseconds'))
    / greatest(sumIf(value, event = 'ZooKeeperTransactions'), 1) / 1000 AS ms`
}

/** `place` counts from 1 as the definition does; nodes that do not answer have no row. */
export const askEachNode = ({ columns, rest = '' }: NodeQuestion<unknown>, table: string): string =>
  `SELECT shardNum() AS place, ${columns} FROM ${table} ${rest} SETTINGS ${ANSWERING_NODES}`

/** Tables of both databases, and the nodes that have them. */
export const listTablesOfNodes = (tables: string): string => `SELECT concat(database, '.', name) AS name, groupUniqArray(shardNum()) AS places
  FROM ${tables} WHERE database IN (currentDatabase(), concat(currentDatabase(), '_all')) AND NOT startsWith(name, '.')
  GROUP BY name ORDER BY name SETTINGS ${ANSWERING_NODES}`

/** Tables that answer an insert before its rows are on the disk. */
export const listUnflushed = (tables: string): string => `SELECT DISTINCT name FROM ${tables}
  WHERE database = currentDatabase() AND engine LIKE '%MergeTree' AND position(engine_full, 'fsync_after_insert = 1') = 0
  ORDER BY name SETTINGS ${ANSWERING_NODES}`

export const COUNT_UNREPLICATED = `SELECT toUInt32(count()) AS n FROM system.tables
  WHERE database = currentDatabase() AND name = 'events' AND engine NOT LIKE 'Replicated%'`
export const READ_QUORUM = `SELECT any(value) AS quorum FROM system.settings_profile_elements
  WHERE setting_name = 'insert_quorum' AND (user_name = 'millrace_pipeline' OR profile_name = 'millrace_quorum')`

/** A table in a database of its own, into which one insert is repeated. */
export function probeStatements (database: string, onCluster: string) {
  const [engine, window] = onCluster === ''
    ? ['MergeTree', 'non_replicated_deduplication_window']
    : [`ReplicatedMergeTree('/clickhouse/tables/all/${database}/probe', '{shard}-{replica}')`, 'replicated_deduplication_window']
  return {
    createDatabase: `CREATE DATABASE ${database} ${onCluster}`,
    createTable: `CREATE TABLE ${database}.probe ${onCluster} (id UInt64) ENGINE = ${engine} ORDER BY id SETTINGS ${window} = 100`,
    insert: `INSERT INTO ${database}.probe SELECT number FROM numbers(100)`,
    count: `SELECT toUInt32(count()) AS rows FROM ${database}.probe`,
    drop: `DROP DATABASE IF EXISTS ${database} ${onCluster} SYNC`
  }
}

/** What every login may ask; `all` is the prefix of the tables of all shards. */
export const compareWithItself = (all: string): string =>
  `SELECT count() FROM ${all}events WHERE distinct_id IN (SELECT distinct_id FROM ${all}events WHERE event = 'checked')`
export const checkGrant = (right: string): string => `CHECK GRANT ${right}`

/** What was found. `wrong`: the promise of stored events or an answer depends on it; the text says what to do. */
export interface Finding { level: 'ok' | 'note' | 'wrong', subject: string, text: string }

export const ok = (text: string): Finding => ({ level: 'ok', subject: '', text })
export const note = (text: string): Finding => ({ level: 'note', subject: '', text })
export const wrong = (text: string): Finding => ({ level: 'wrong', subject: '', text })

/** The complaints, or `fine` without any. */
export const unless = (complaints: readonly Finding[], fine: string): Finding[] =>
  complaints.length > 0 ? [...complaints] : [ok(fine)]

/** What the node that is asked knows of the cluster. */
export interface Definition {
  /** In the order of `remote_servers`. */
  nodes: Pick<ClusterNode, 'shard' | 'node'>[]
  /** Places in `nodes`, counted from 1, of those that answer. */
  answering: number[]
}

/** Ingest sets times of events, nodes those of their parts. */
const MAX_CLOCK_DIFFERENCE_MS = 2000
/** Distributed tables leave out a replica that is behind by more (`max_replica_delay_for_distributed_queries`). */
const MAX_DELAY_SECONDS = 300
const SLOW_KEEPER_MS = 100

const nameOf = ({ nodes }: Definition, place: number): string => nodes[place - 1]?.node ?? '?'

/** @param tookMs  Of the question: the nodes may have read their clocks so far apart. */
export function compareNodes (definition: Definition, rows: Answers<typeof NODE_VERSION>, tookMs: number): Finding[] {
  const silent = definition.nodes.filter((_, index) => !definition.answering.includes(index + 1))
  const versions = [...new Set(rows.map(({ version }) => version))]
  const clocks = rows.map(({ now }) => now)
  const difference = Math.max(...clocks) - Math.min(...clocks)
  return [
    ...unless(silent.map(({ node }) => wrong(`${node} does not answer: start it, or take it out of remote_servers of all nodes`)),
      `${rows.length} nodes answer`),
    versions.length === 1 ? ok(`all run ${versions[0]}`) : note(`they run ${versions.join(' and ')}: fine during an upgrade, otherwise run one version`),
    difference > MAX_CLOCK_DIFFERENCE_MS + tookMs
      ? wrong(`their clocks differ by ${Math.round(difference)} ms: run NTP on every node`)
      : ok(`their clocks agree (${difference.toFixed(1)} ms)`)
  ]
}

/** Whether each node has the `remote_servers` of the one that is asked. */
export function compareDefinitions (definition: Definition, rows: Answers<typeof NODE_DEFINITION>): Finding[] {
  const asked = definition.nodes.map(({ shard, node }) => `${shard}/${node}`).join(' ')
  return unless(definition.answering.flatMap((place) => {
    const node = nameOf(definition, place)
    // A node that does not know the cluster has no row.
    const { nodes, internal, own } = rows.find((row) => row.place === place) ?? { nodes: 'none', internal: 1, own: 1 }
    return [
      ...internal === 1 ? [] : [wrong(`${node}: internal_replication is not true for every shard: rows would be written to each replica and copied as well; set it`)],
      ...nodes === asked ? [] : [wrong(`${node} has the shards and replicas ${nodes}, the node that is asked ${asked}: give every node the same remote_servers in the same order, or repeated inserts go to other shards`)],
      ...own > 0 ? [] : [wrong(`${node} does not find itself in remote_servers, and statements ON CLUSTER pass it by: name it there by a host that is its own address, and its tcp_port`)]
    ]
  }), 'every node has the same remote_servers in the same order, with internal_replication')
}

const SET_MACRO = 'Where it is wrong: take the node away as docs/run/scaling.md says (as a shard, when no other node has its macro shard), set the macro, and add the node again. A node without tables: set it, and start the node again'

export function compareMacros ({ nodes, answering }: Definition, rows: Answers<typeof NODE_MACROS>): Finding[] {
  const macroOf = (place: number, name: string): string | undefined =>
    rows.find((row) => row.place === place && row.macro === name)?.substitution
  const macros = answering.map((place) =>
    ({ ...nodes[place - 1], own: macroOf(place, 'shard'), replica: macroOf(place, 'replica') }))
  const complaints = macros.flatMap(({ node, own, replica }, index) => {
    if (own === undefined || replica === undefined) {
      return [wrong(`${node} lacks the macro ${own === undefined ? 'shard' : 'replica'}: its tables would have no path; set it, and start the node again`)]
    }
    const twin = macros.slice(0, index).find((other) => other.own === own && other.replica === replica)
    return twin === undefined ? [] : [wrong(`${node} and ${twin.node} have the same shard and replica: they would take turns as one. Give the one that came later a replica of its own, start it again, and run "millrace migrate"`)]
  })
  const shards = [...Map.groupBy(macros, ({ shard }) => shard).values()]
    .map((replicas) => new Set(replicas.map(({ own }) => own)))
  if (shards.some((names) => names.size > 1) || new Set(shards.map((names) => [...names][0])).size < shards.length) {
    complaints.push(wrong('the macro shard does not follow remote_servers: replicas of a shard must share it, and no two shards may. It is ' +
      `${macros.map(({ own, node, shard }) => `${own} on ${node} of shard ${shard}`).join(', ')}. ${SET_MACRO}`))
  }
  return unless(complaints, 'each node has its shard and replica')
}

/** @param tables  Of both databases, with the places of the nodes that have them. */
export function compareTables (of: Definition, tables: readonly { name: string, places: number[] }[]): Finding[] {
  if (tables.length === 0) return [wrong('no node has a table: run "millrace migrate"')]
  return unless(of.answering.flatMap((place) => {
    const missing = tables.filter(({ places }) => !places.includes(place)).map(({ name }) => name)
    return missing.length === 0 ? [] : [wrong(`${nameOf(of, place)} lacks ${missing.length} tables (${missing.slice(0, 3).join(', ')}): run "millrace migrate"`)]
  }), `every node has ${tables.length} tables and views`)
}

/** Of nodes whose macros are right: else a path is where the macros place it, and the advice would be harmful. */
export function compareReplicas (
  { nodes }: Definition, rows: Answers<typeof NODE_REPLICAS>, database: string
): Finding[] {
  return unless(rows.flatMap(({ place, name, path, own, all, active, delay, frozen }) => {
    const { node, shard } = nodes[place - 1] ?? { node: '?', shard: 0 }
    const wanted = nodes.filter((other) => path.startsWith('/clickhouse/tables/all/') || other.shard === shard).length
    const right = pathInKeeper(database, name, own)
    if (path !== right) return [wrong(`${node} has ${name} at ${path} in Keeper instead of ${right}, where the other replicas are, so no other node has its rows: copy them as docs/run/scaling.md copies those of a shard that is taken away, then DROP TABLE ${name} SYNC on that node, and "millrace migrate"`)]
    return [
      ...all >= wanted ? [] : [wrong(`${node}: ${name} has ${all} replicas, remote_servers says ${wanted}: run "millrace migrate" on the node that lacks it, or look for one that has it at another path`)],
      ...all <= wanted ? [] : [wrong(`${node}: ${name} has ${all} replicas, ${active} of them at work, and remote_servers says ${wanted}: name a node that was added there, SYSTEM DROP REPLICA for one that is gone`)],
      ...active === all ? [] : [wrong(`${node}: ${name} has ${active} of ${all} replicas at work: start the other ones`)],
      ...frozen === 0 ? [] : [wrong(`${node}: ${name} is read-only: it has no session with Keeper, or its path is missing there (SYSTEM RESTORE REPLICA)`)],
      ...delay <= MAX_DELAY_SECONDS ? [] : [wrong(`${node}: ${name} is ${delay} s behind: let it catch up before it is asked`)]
    ]
  }), `${rows.length} replicas of tables are complete, at work and not behind`)
}

/** @param rows  Mean wait for an answer of Keeper since the start of each node. */
export function compareKeeper (definition: Definition, rows: Answers<typeof NODE_KEEPER>): Finding[] {
  const slow = rows.filter(({ ms }) => ms > SLOW_KEEPER_MS)
  return unless(slow.map(({ place, ms }) => wrong(`${nameOf(definition, place)} waits ${Math.round(ms)} ms for an answer of Keeper: an insert takes some ten of them; look at its disks and network`)),
    `Keeper answers in ${Math.max(...rows.map(({ ms }) => ms)).toFixed(1)} ms, the mean since the start of a node`)
}

/** What one dead node stops. @param rows  `insert_quorum` of the pipeline's login. */
export function judgeQuorum ({ nodes }: Definition, rows: readonly { quorum: string }[]): Finding[] {
  const quorum = rows[0]?.quorum ?? ''
  const isOn = quorum !== '' && quorum !== '0'
  return [
    isOn
      ? ok(`an insert of the pipeline is confirmed by ${quorum} replicas`)
      : note('an insert is confirmed by one replica, and what it had not copied yet is lost with its disk: see deploy/clickhouse/quorum.sql'),
    ...unless([...Map.groupBy(nodes, ({ shard }) => shard)].flatMap(([shard, { length: replicas }]) => {
      const needed = !isOn ? 1 : quorum === 'auto' ? Math.floor(replicas / 2) + 1 : Number(quorum)
      if (replicas === 1) return [note(`shard ${shard} has one replica: while it is away no event is stored and no query answered`)]
      return replicas > needed ? [] : [note(`while one of the ${replicas} replicas of shard ${shard} is away, the events of all shards wait in the stream`)]
    }), 'one dead node stops nothing')
  ]
}
