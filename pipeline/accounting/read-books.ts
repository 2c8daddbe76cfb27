/** The books: what must be stored of each project and minute of receipt, from the table and the partitions' records. */
import { LEDGER_TABLE, type LedgerEntry, ledgerKey, readLedgerKey } from '../../schema/wire/ledger.ts'
import { type ClickHouse, onEachShard, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { type PartitionPositions, readPositions } from './partition-positions.ts'

/** Minutes of receipt that are looked at. */
export interface LedgerSpan {
  /** Minutes since 1970. */
  from: number
  /** Exclusive. */
  to: number
  /** Absent: all. */
  projectId?: number
}

export interface LedgerDeps {
  connection: NatsConnection
  clickhouse: ClickHouse
  /** Name of the ClickHouse cluster; empty: one node. */
  cluster: string
}

/** The books of a project and minute. */
export interface BookTotals extends Omit<LedgerEntry, 'source'> {
  deletionsBegun: number
  deletionsDone: number
}

export interface Books {
  /** By `ledgerKey`. */
  totals: ReadonlyMap<string, BookTotals>
  /** The partitions' records, read before the table. */
  positions: PartitionPositions
  /** From this minute on the books of all partitions are complete; Infinity: no partition was ever written. */
  openedAt: number
}

/**
 * Reads the books of a span. The records are read first: an entry that leaves one in between is in the table by then.
 *
 * @throws when NATS or ClickHouse does not answer.
 */
export async function readBooks (deps: LedgerDeps, span: LedgerSpan): Promise<Books> {
  const positions = await readPositions(deps.connection)
  const open = [...positions.values()].flatMap(({ entries }) => Object.entries(entries))
    .filter(([key]) => isWithin(span, key))
  const totals = new Map<string, BookTotals>()
  /** The totals of the open entries that the table has. */
  const written = new Map<string, BookTotals>()
  for (const { key, source, ...row } of await readTable(deps, span, open.map(([, { source }]) => source))) {
    add(totals, key, row)
    if (source !== '') written.set(`${key} ${source}`, row)
  }
  for (const [key, entry] of open) add(totals, key, growth(written.get(`${key} ${entry.source}`), entry))
  const openedAt = [...positions.values()].reduce((latest, position) => Math.max(latest, position.openedAt), -Infinity)
  return { totals, positions, openedAt: positions.size === 0 ? Infinity : openedAt }
}

function isWithin ({ from, to, projectId }: LedgerSpan, key: string): boolean {
  const { projectId: project, minute } = readLedgerKey(key)
  return minute >= from && minute < to && (projectId === undefined || project === projectId)
}

interface TableRow extends BookTotals {
  key: string
  /** Empty: the sum over all that are not asked for. */
  source: string
}

/** @param sources  Those whose totals are wanted apart. */
async function readTable (
  { clickhouse, cluster }: Omit<LedgerDeps, 'connection'>, { from, to, projectId = 0 }: LedgerSpan, sources: readonly string[]
): Promise<TableRow[]> {
  const rows = await queryRows<Record<string, string>>(clickhouse, `
    SELECT project_id AS project, intDiv(toUnixTimestamp(minute), 60) AS at, if(has({sources: Array(String)}, source), source, '') AS apart,
      sum(a) AS accepted, sum(r) AS replayed, sum(d) AS duplicates, sum(l) AS dead_lettered, sum(b) AS begun, sum(e) AS done
    FROM (
      SELECT project_id, minute, source, max(accepted) AS a, max(replayed) AS r, max(duplicates) AS d, max(dead_lettered) AS l,
        max(deletions_begun) AS b, max(deletions_done) AS e
      FROM ${onEachShard(cluster, LEDGER_TABLE)}
      WHERE minute >= toDateTime({from: UInt32}) AND minute < toDateTime({to: UInt32})
        AND ({project: UInt32} = 0 OR project_id = {project: UInt32})
      GROUP BY project_id, minute, source
    )
    GROUP BY project, at, apart SETTINGS final = 0`,
  { from: from * 60, to: to * 60, project: projectId, sources: [...new Set(sources)] })
  return rows.map((row) => ({
    key: ledgerKey(Number(row.project), Number(row.at)),
    source: row.apart!,
    accepted: Number(row.accepted),
    replayed: Number(row.replayed),
    duplicates: Number(row.duplicates),
    deadLettered: Number(row.dead_lettered),
    deletionsBegun: Number(row.begun),
    deletionsDone: Number(row.done)
  }))
}

const NOTHING: BookTotals = {
  accepted: 0, replayed: 0, duplicates: 0, deadLettered: 0, deletionsBegun: 0, deletionsDone: 0
}

/** What an entry of a record has beyond what the table has of it. */
function growth (written: BookTotals = NOTHING, entry: LedgerEntry): BookTotals {
  return {
    ...NOTHING,
    accepted: Math.max(0, entry.accepted - written.accepted),
    replayed: Math.max(0, entry.replayed - written.replayed),
    duplicates: Math.max(0, entry.duplicates - written.duplicates),
    deadLettered: Math.max(0, entry.deadLettered - written.deadLettered)
  }
}

/** Adds up the books of one key. */
export function add<K> (totals: Map<K, BookTotals>, key: K, more: BookTotals): void {
  const total = totals.get(key) ?? NOTHING
  totals.set(key, {
    accepted: total.accepted + more.accepted,
    replayed: total.replayed + more.replayed,
    duplicates: total.duplicates + more.duplicates,
    deadLettered: total.deadLettered + more.deadLettered,
    deletionsBegun: total.deletionsBegun + more.deletionsBegun,
    deletionsDone: total.deletionsDone + more.deletionsDone
  })
}
