/** Copies what differs between two ClickHouse, table by table and month by month. */
import { setTimeout as delay } from 'node:timers/promises'
import { MillraceError } from '../../engines/errors.ts'
import { classifyClickHouseError } from '../../platform/clickhouse/clickhouse-errors.ts'
import { queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { waitForReplicas } from '../../platform/clickhouse/wait-for-replicas.ts'
import { retryDelayMs } from '../../platform/intervals.ts'
import {
  deleteRows, digestEvents, digestGroups, emptyTable, type EventDigest, type EventsSpan, type GroupDigest, LIST_MONTHS,
  selectRows, whereEvents, whereGroups
} from '../../schema/move/move-statements.ts'
import { EVENTS, isWhole, MOVED_TABLES, type MovedTable, VIEW_FED_TABLES } from '../../schema/move/moved-tables.ts'
import {
  compareEvents, countExtra, type DifferingGroup, findDifferences, type Piece, planPieces, timesOfShares
} from '../../schema/move/plan-move.ts'
import { everyShard, listColumnNames, type MoveStore, transferRows } from './store.ts'

export interface MoveSides {
  from: MoveStore
  to: MoveStore
  /** What the target has and the source has not is removed. */
  removeExtra: boolean
  onProgress: (what: string) => void
}

/** Comparisons after which what still differs is reported. */
const ROUNDS = 3

/** Tries of one insert while the target is overloaded or starts again. */
const TRIES = 8

async function read<T> (store: MoveStore, table: string, query: string): Promise<T[]> {
  // Otherwise a lagging replica would look like missing rows. Tables that every node has in full are read
  // from the one that was written to.
  if (!isWhole(table)) await waitForReplicas({ clickhouse: store.local, cluster: store.cluster, tables: [table] })
  return await queryRows<T>(isWhole(table) ? store.local : store.shards, query, {}, { max_execution_time: 0 })
}

/** @param isMerged  Without superseded rows. */
export async function listMonths (store: MoveStore, isMerged = false): Promise<{ month: number, rows: number }[]> {
  return await read(store, 'events', isMerged ? LIST_MONTHS.replace('FROM events', 'FROM events FINAL') : LIST_MONTHS)
}

async function digest (store: MoveStore, table: MovedTable, where: string): Promise<GroupDigest[]> {
  return await read(store, table.name, digestGroups(table, where))
}

/**
 * Copies the events of a month that the target lacks.
 *
 * @param span.before  Only those inserted before this time, in epoch milliseconds.
 * @returns events that were copied.
 */
export async function copyEvents (sides: MoveSides, span: EventsSpan): Promise<number> {
  const { from, to } = sides
  const columns = await listColumnNames(from, 'events')
  let copied = 0
  for (let round = 0; round < ROUNDS; round++) {
    const where = whereEvents(span)
    const [source, target] = [await digest(from, EVENTS, where), await digest(to, EVENTS, where)]
    const differing = findDifferences(source, target)
    if (differing.length === 0) return copied
    if (await isMergedOnly(sides, differing, span)) return copied
    refuseExtra(sides, 'events', countExtra(differing))
    const appendable = await findAppendable(sides, differing, span)
    const plan = { table: 'events', begun: new Set(target.map(({ group }) => group)), isRepeatable: false }
    for (const piece of planPieces(differing, { ...plan, appendable, round })) {
      const of = whereEvents({ ...span, groups: piece.groups, shares: piece.shares, after: piece.after })
      if (piece.isReplaced) await remove(to, EVENTS, of)
      if (piece.rows > 0) await transfer(sides, EVENTS, { columns, select: selectRows(EVENTS, columns, of), piece })
      copied += piece.rows
      sides.onProgress(`${span.month}: ${copied} events copied`)
    }
  }
  return copied
}

/** Of days that the target has in part, which part it is. */
async function findAppendable (
  { from }: MoveSides, differing: readonly DifferingGroup[], span: EventsSpan
): Promise<GroupDigest[]> {
  const found: GroupDigest[] = []
  const begun = differing.filter(({ target }) => target !== undefined)
  for (const [group, parts] of Map.groupBy(begun, ({ group }) => group)) {
    found.push(...await digest(from, EVENTS, whereEvents({ ...span, groups: [group], through: timesOfShares(parts) })))
  }
  return found
}

/** Whether all that differs are superseded rows, which one side has merged away and the other has not. */
async function isMergedOnly (
  sides: MoveSides, differing: readonly DifferingGroup[], span: EventsSpan
): Promise<boolean> {
  if (differing.some(({ source, target }) => source === undefined || target === undefined)) return false
  const groups = [...new Set(differing.map(({ group }) => group))]
  return (await proveMonth(sides, { ...span, groups })).differing.length === 0
}

/**
 * Compares a month by day and event: counts and checksums of all columns. Superseded rows that the target has merged
 * away are no difference.
 */
export async function proveMonth ({ from, to }: MoveSides, span: EventsSpan) {
  const columns = await listColumnNames(from, 'events')
  const ask = async (store: MoveStore, isMerged: boolean, of: EventsSpan): Promise<EventDigest[]> =>
    await read(store, 'events', digestEvents(columns, whereEvents(of), { isMerged }))
  const [source, target] = await Promise.all([ask(from, false, span), ask(to, false, span)])
  const count = (digests: readonly EventDigest[]): number => digests.reduce((sum, each) => sum + each.count, 0)
  let differing = compareEvents(source, target)
  if (differing.length > 0) {
    const days = { ...span, groups: [...new Set(differing.map(({ day }) => day))] }
    const others = compareEvents(await ask(from, true, days), await ask(to, true, days))
    const keys = new Set(others.map(({ day, event }) => `${day} ${event}`))
    // More than the source has would be rows that were copied twice.
    differing = differing.filter((each) => each.target > each.source || keys.has(`${each.day} ${each.event}`))
  }
  return { groups: source.length, source: count(source), target: count(target), differing }
}

export interface ProvenTable { table: string, source: number, target: number, isEqual: boolean }

/** Copies the tables beside `events`. @param options.isLast  Also those that views fill: nothing is stored any more. */
export async function copyOthers (sides: MoveSides, { isLast }: { isLast: boolean }): Promise<ProvenTable[]> {
  const proven: ProvenTable[] = []
  for (const table of [...MOVED_TABLES, ...isLast ? VIEW_FED_TABLES : []]) proven.push(await copyTable(sides, table))
  return proven
}

async function copyTable (sides: MoveSides, table: MovedTable): Promise<ProvenTable> {
  const { from, to } = sides
  const columns = await listColumnNames(from, table.name)
  const isViewFed = VIEW_FED_TABLES.includes(table)
  for (let round = 0; ; round++) {
    const source = await digest(from, table, whereGroups(table))
    const target = await digest(to, table, whereGroups(table))
    const differing = findDifferences(source, target)
    const count = (digests: readonly GroupDigest[]): number => digests.reduce((sum, { rows }) => sum + rows, 0)
    if (differing.length === 0 || round === ROUNDS) {
      return { table: table.name, source: count(source), target: count(target), isEqual: differing.length === 0 }
    }
    if (!isViewFed) refuseExtra(sides, table.name, countExtra(differing))
    const isRepeatable = table.isRepeatable && round === 0
    if (isViewFed) await to.local.command({ query: emptyTable(table.name, everyShard(to, table.name)) })
    const begun = new Set(target.map(({ group }) => group))
    for (const piece of planPieces(differing, { table: table.name, begun, isRepeatable, round })) {
      const where = whereGroups(table, piece.groups)
      if (piece.isReplaced && !isViewFed) await remove(to, table, where)
      await transfer(sides, table, { columns, select: selectRows(table, columns, where), piece })
    }
    sides.onProgress(`${table.name}: ${count(source)} rows copied`)
  }
}

function refuseExtra ({ from, to, removeExtra }: MoveSides, table: string, extra: number): void {
  if (extra === 0 || removeExtra) return
  throw new MillraceError('MILLRACE_MOVE_TARGET_HAS_OTHERS', `${table} of ${to.name} has at least ${extra} rows that ${from.name} does not have. ` +
    'These rows were not changed. The target is already in use, another move is running, or it belongs to another Millrace. If the rows were deleted ' +
    'from the source after being copied (retention, or a person), repeat the command with --remove-extra')
}

async function remove (to: MoveStore, { name }: MovedTable, where: string): Promise<void> {
  await to.local.command({
    query: deleteRows(name, everyShard(to, name), where),
    clickhouse_settings: { lightweight_deletes_sync: '2', mutations_sync: '2' }
  })
}

async function transfer (
  { from, to, onProgress }: MoveSides, { name: table }: MovedTable,
  { columns, select, piece }: { columns: readonly string[], select: string, piece: Piece }
): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      await transferRows(from, to, { table, columns, select, token: piece.token })
      return
    } catch (error) {
      const { action, why } = classifyClickHouseError(error)
      if (action !== 'retry' || attempt === TRIES) throw error
      onProgress(`insert into ${table} failed, retrying: ${why}`)
      await delay(retryDelayMs(attempt))
    }
  }
}
