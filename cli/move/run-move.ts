import { MillraceError } from '../../engines/errors.ts'
import { classifyClickHouseError } from '../../platform/clickhouse/clickhouse-errors.ts'
import {
  allShardsUrl, connectClickHouse, LOCAL_DATABASE, onCluster, queryRows, systemTableOfShards
} from '../../platform/clickhouse/connect-clickhouse.ts'
import { addColumn, LIST_MIGRATIONS, LIST_NAMES } from '../../schema/backup-statements.ts'
import { migrateClickHouse } from '../../schema/migrate/migrate-clickhouse.ts'
import {
  COUNT_UUIDS, FIND_ALL_SHARDS, FIND_MIGRATIONS, LIST_MONTHS, READ_CLOCK, READ_TABLE_ID, sampleUuids, sumBytes,
  sumFreeBytes
} from '../../schema/move/move-statements.ts'
import type { DifferingEvents } from '../../schema/move/plan-move.ts'
import { closeStore, isClosed, openStore, waitForInserts } from './close-source.ts'
import { copyEvents, copyOthers, listMonths, type MoveSides, type ProvenTable, proveMonth } from './copy-tables.ts'
import { listColumns, type MoveStore } from './store.ts'

export interface MoveOptions extends MoveSides {
  /** Makes the tables of the target first. */
  migrate: boolean
  /** Closes the source, and copies the last rows. */
  finish: boolean
}

export interface MoveResult {
  copied: number
  months: { month: number, days_and_events: number, source: number, target: number, differing: number }[]
  differing: (DifferingEvents & { month: number })[]
  tables: ProvenTable[]
  isEqual: boolean
  /** What users made in the source, and the target does not have. */
  not_moved: string[]
  /** Events inserted before this time were compared; null: all, and the source is closed. */
  before: string | null
}

/** Events inserted less than this ago may be under way, in milliseconds: they are for the next run. */
const SETTLED_MS = 60_000

const MAX_CLOCK_DIFFERENCE_MS = 2000

/**
 * Copies what the target lacks, and compares both sides. With `finish` the source is closed before, and stays closed
 * when both are equal; when they are not, or anything fails, it is opened again.
 *
 * The next run continues a killed one, from the rows that the target has.
 */
export async function runMove (options: MoveOptions): Promise<MoveResult> {
  const { from, to, finish } = options
  await prepareTarget(options)
  await refuseForeignTarget(options)
  if (!finish) {
    if (await isClosed(from)) {
      throw new MillraceError('MILLRACE_MOVE_CLOSED', `${from.name} was closed by --finish: repeat it with --finish, or open it with --reopen`)
    }
    return await copyAndProve(options, await readClock(from) - SETTLED_MS)
  }
  const wasClosed = await isClosed(from)
  // Most of it while events are still stored.
  const before = wasClosed ? 0 : await copyMonths(options, await readClock(from) - SETTLED_MS)
  let isEqual = false
  try {
    options.onProgress('closing the source: from now on events wait in the stream')
    await closeStore(from)
    await waitForInserts(to)
    const result = await copyAndProve(options, undefined)
    isEqual = result.isEqual
    return { ...result, copied: before + result.copied }
  } finally {
    if (!isEqual && !wasClosed) {
      await openStore(from)
      options.onProgress('the source is open again: events are stored there')
    }
  }
}

/**
 * Opens a source that was closed, unless the target is in use already.
 *
 * @param isSaidLost  The target is gone for good, and somebody knows that the pipeline stored nothing there.
 * @throws {MillraceError} when the target has events that the source lacks, or is not as it is said to be.
 */
export async function reopenSource ({ from, to }: MoveSides, isSaidLost: boolean): Promise<void> {
  const isLost = await isGone(to)
  if (isLost !== isSaidLost) {
    throw new MillraceError('MILLRACE_MOVE_FAILED', isLost
      ? `${to.name} cannot be read. If it is permanently lost and the pipeline never ran on it, add --target-lost`
      : `${to.name} answers, so it is not lost: repeat the command without --target-lost; it will then check whether events were stored there`)
  }
  if (isLost) return await openStore(from)
  await refuseSame(from, to)
  // By month: superseded rows, and months that retention removed from the target, would hide events of the target.
  const ours = new Map((await listMonths(from, true)).map(({ month, rows }) => [month, rows]))
  const more = (await listMonths(to, true))
    .reduce((sum, { month, rows }) => sum + Math.max(0, rows - (ours.get(month) ?? 0)), 0)
  if (more > 0) {
    throw new MillraceError('MILLRACE_MOVE_TARGET_HAS_OTHERS', `${to.name} has ${more} events more than ${from.name}: the pipeline ` +
      'already stores events there. To go back, move in the other direction, with CLICKHOUSE_URL and --to swapped')
  }
  await openStore(from)
}

/** What counting events is answered where they are gone: no such table or database; no replica of a shard answers. */
const GONE = [60, 81, 209, 210, 279]

async function isGone ({ url, cluster }: MoveStore): Promise<boolean> {
  const client = connectClickHouse({ url: allShardsUrl(url, cluster), cluster, requestTimeoutMs: 30_000 })
  const error = await queryRows(client, LIST_MONTHS).then(() => null, classifyClickHouseError)
  await client.close()
  return error !== null && (error.isDown === true || GONE.includes(error.code))
}

async function copyMonths (sides: MoveSides, before: number | undefined): Promise<number> {
  let copied = 0
  // Those that only the target has are differences, too.
  const all = [...await listMonths(sides.from), ...await listMonths(sides.to)]
  const months = new Set(all.map(({ month }) => month))
  for (const month of [...months].sort((a, b) => a - b)) copied += await copyEvents(sides, { month, before })
  return copied
}

async function copyAndProve (options: MoveOptions, before: number | undefined): Promise<MoveResult> {
  const copied = await copyMonths(options, before)
  const tables = await copyOthers(options, { isLast: before === undefined })
  const upTo = before === undefined ? null : new Date(before).toISOString()
  const notMoved = await listNotMoved(options)
  const result: MoveResult = {
    copied, months: [], differing: [], tables, isEqual: false, not_moved: notMoved, before: upTo
  }
  for (const { month } of await listMonths(options.from)) {
    const { groups, source, target, differing } = await proveMonth(options, { month, before })
    result.months.push({ month, days_and_events: groups, source, target, differing: differing.length })
    for (const each of differing) result.differing.push({ month, ...each })
  }
  result.isEqual = result.differing.length === 0 && tables.every(({ isEqual }) => isEqual)
  return result
}

async function listNotMoved ({ from, to }: MoveSides): Promise<string[]> {
  const list = async ({ local }: MoveStore): Promise<string[]> =>
    (await queryRows<{ what: string }>(local, LIST_NAMES)).map(({ what }) => what)
  const there = new Set(await list(to))
  return (await list(from)).filter((what) => !there.has(what)).sort()
}

async function readClock ({ local }: MoveStore): Promise<number> {
  return Number((await queryRows<{ now: number }>(local, READ_CLOCK))[0]?.now)
}

async function refuseSame (from: MoveStore, to: MoveStore): Promise<void> {
  const [own, other] = await Promise.all([from, to].map(({ local }) => queryRows<{ id: string }>(local, READ_TABLE_ID)))
  if (own?.[0]?.id !== other?.[0]?.id) return
  throw new MillraceError('MILLRACE_MOVE_TARGET_HAS_OTHERS', `${from.name} and ${to.name} are the same: --to must be another ClickHouse`)
}

/** A node of a cluster has the rows of its shard alone, and they would pass for all. */
async function refuseOneNode ({ name, cluster, local }: MoveStore, setting: string): Promise<void> {
  if (cluster !== '' || (await queryRows(local, FIND_ALL_SHARDS)).length === 0) return
  throw new MillraceError('MILLRACE_MOVE_FAILED', `${name} is a node of a cluster: name the cluster with ${setting}`)
}

/** Tables of this version on both sides, with the same columns; clocks; room. */
async function prepareTarget ({ from, to, migrate, onProgress }: MoveOptions): Promise<void> {
  const topology = to.cluster === '' ? {} : { cluster: to.cluster }
  await refuseOneNode(from, 'MILLRACE_CLICKHOUSE_CLUSTER')
  if (migrate) await migrateClickHouse(to.url, topology)
  await refuseOneNode(to, '--to-cluster')
  const [ours, theirs] = [await listMigrations(from), await listMigrations(to)]
  if (theirs.length === 0) {
    throw new MillraceError('MILLRACE_MOVE_NOT_MIGRATED', `${to.name} has no Millrace tables: repeat the command with --migrate`)
  }
  if (ours.join() !== theirs.join()) {
    throw new MillraceError('MILLRACE_MOVE_NOT_MIGRATED', `${from.name} has the migrations ${ours.join(', ')}, and ${to.name} ${theirs.join(', ')}: ` +
      'run "millrace migrate" of the same version on both')
  }
  await refuseSame(from, to)
  const difference = await readClock(from) - await readClock(to)
  if (Math.abs(difference) > MAX_CLOCK_DIFFERENCE_MS) {
    throw new MillraceError('MILLRACE_MOVE_CLOCKS', `the clocks of ${from.name} and ${to.name} differ by ${Math.round(difference)} ms: run NTP on both`)
  }
  await refuseSmallDisk(from, to)
  const present = new Set((await listColumns(to, 'events')).map(({ name }) => name))
  const missing = (await listColumns(from, 'events')).filter(({ name }) => !present.has(name))
  for (const column of missing) await to.local.command({ query: addColumn('events', column, onCluster(to.cluster)) })
  // Views and tables of all shards follow.
  if (missing.length > 0) await migrateClickHouse(to.url, topology)
  if (await isClosed(to)) {
    await openStore(to)
    onProgress(`${to.name} was the source of an earlier move: it is open again`)
  }
}

async function listMigrations ({ local }: MoveStore): Promise<string[]> {
  const tables = await queryRows(local, FIND_MIGRATIONS)
  if (tables.length === 0) return []
  return (await queryRows<{ name: string }>(local, LIST_MIGRATIONS)).map(({ name }) => name)
}

async function refuseSmallDisk (from: MoveStore, to: MoveStore): Promise<void> {
  const sizeOf = async ({ local, cluster }: MoveStore): Promise<number> =>
    Number((await queryRows<{ bytes: number }>(local, sumBytes(systemTableOfShards(cluster, 'parts'), LOCAL_DATABASE)))[0]?.bytes)
  const [free] = await queryRows<{ bytes: number }>(to.local, sumFreeBytes(systemTableOfShards(to.cluster, 'disks')))
  const needed = await sizeOf(from) - await sizeOf(to)
  if (needed <= Number(free?.bytes)) return
  throw new MillraceError('MILLRACE_MOVE_NO_ROOM', `${to.name} has ${Math.round(Number(free?.bytes) / 1e6)} MB free, and ${Math.round(needed / 1e6)} MB ` +
    'are missing there: add disk space. Merges temporarily need the same amount again')
}

const SAMPLE = 200

/** Refuses a target whose events are not those of the source: nothing may be removed from it. */
async function refuseForeignTarget ({ from, to }: MoveSides): Promise<void> {
  const sample = await queryRows<{ uuid: string }>(to.shards, sampleUuids(SAMPLE))
  if (sample.length === 0) return
  const [known] = await queryRows<{ n: number }>(from.shards, COUNT_UUIDS, { uuids: sample.map(({ uuid }) => uuid) })
  if (Number(known?.n) * 2 > sample.length) return
  throw new MillraceError('MILLRACE_MOVE_TARGET_HAS_OTHERS', `of ${sample.length} events of ${to.name}, ${from.name} has ${Number(known?.n)}: ` +
    'it belongs to another Millrace, or is not the target of this move. Use another one, or empty it first')
}
