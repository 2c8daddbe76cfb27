import { createHash } from 'node:crypto'
import { EVENT_SHARES } from './moved-tables.ts'
import type { EventDigest, GroupDigest } from './move-statements.ts'

/** Rows that are copied by one insert, which is one block in the memory of the target. */
export const PIECE_ROWS = 200_000

/** Groups that are copied by one insert. */
export interface Piece {
  groups: number[]
  /** Of one group; absent: all. */
  shares?: number[]
  /** Only events inserted after this time, by share: the target has the earlier ones. */
  after?: number[]
  /** What the target has of the groups is removed first. */
  isReplaced: boolean
  rows: number
  /** The same piece from the same rows has the same token, in every run. */
  token: string
}

/** A group that is not the same on both sides. */
export interface DifferingGroup {
  group: number
  share: number
  source: GroupDigest | undefined
  target: GroupDigest | undefined
}

const keyOf = ({ group, share }: { group: number, share: number }): string => `${group} ${share}`

/** What both sides say of each key. */
function pairUp<T> (source: readonly T[], target: readonly T[], keyOf: (each: T) => string) {
  const byKey = (all: readonly T[]): Map<string, T> => new Map(all.map((each) => [keyOf(each), each]))
  const [here, there] = [byKey(source), byKey(target)]
  return [...new Map([...here, ...there])].map(([key, each]) =>
    ({ each, source: here.get(key), target: there.get(key) }))
}

/** Groups whose rows differ in number or checksum, in order. */
export function findDifferences (source: readonly GroupDigest[], target: readonly GroupDigest[]): DifferingGroup[] {
  return pairUp(source, target, keyOf)
    .filter(({ source, target }) => source?.checksum !== target?.checksum || source?.rows !== target?.rows)
    .map(({ each: { group, share }, source, target }) => ({ group, share, source, target }))
    .sort((a, b) => a.group - b.group || a.share - b.share)
}

/** Rows that the target has and the source cannot have given, at least. */
export function countExtra (differing: readonly DifferingGroup[]): number {
  return differing.reduce((sum, { source, target }) => sum + Math.max(0, (target?.rows ?? 0) - (source?.rows ?? 0)), 0)
}

/** Per share the time up to which the target has events of a day; later events may be appended. */
export function timesOfShares (differing: readonly DifferingGroup[]): number[] {
  const times: number[] = Array.from({ length: EVENT_SHARES }, () => 0)
  for (const { share, target } of differing) times[share] = target?.last ?? 0
  return times
}

export interface PlanOptions {
  table: string
  /** Groups and shares of which the target has the first rows, exactly, with the rows of the source up to there. */
  appendable?: readonly GroupDigest[]
  /** Groups of which the target has something, be it in shares that do not differ. */
  begun: ReadonlySet<number>
  /** Rows are added to those that are there, which is harmless. */
  isRepeatable: boolean
  /** Counts the attempts of one run: a token of an earlier one may be known, and its rows gone. */
  round: number
}

/** How groups that differ are copied, in pieces of bounded size. */
export function planPieces (differing: readonly DifferingGroup[], options: PlanOptions): Piece[] {
  const { begun, isRepeatable, appendable = [] } = options
  const prefixes = new Map(appendable.map((each) => [keyOf(each), each.checksum]))
  const isAppended = (each: DifferingGroup): boolean => each.target !== undefined &&
    (each.source?.rows ?? 0) > each.target.rows && prefixes.get(keyOf(each)) === each.target.checksum
  const pieces: Piece[] = []
  let whole: DifferingGroup[] = []
  const flush = (): void => {
    if (whole.length > 0) pieces.push(toPiece(whole, options, { isReplaced: false }))
    whole = []
  }
  for (const [group, parts] of Map.groupBy(differing, ({ group }) => group)) {
    const rows = countRows(parts)
    if ((!begun.has(group) || isRepeatable) && rows <= PIECE_ROWS) {
      if (countRows(whole) + rows > PIECE_ROWS) flush()
      whole.push(...parts)
      continue
    }
    flush()
    const kinds = Map.groupBy(parts, (part) =>
      part.target === undefined || isRepeatable ? 'new' : isAppended(part) ? 'appended' : 'replaced')
    for (const [kind, alike] of kinds) {
      for (const chunk of cut(alike, kind === 'appended')) {
        const how = { shares: chunk.map(({ share }) => share), isReplaced: kind === 'replaced' }
        pieces.push(toPiece(chunk, options, kind === 'appended' ? { ...how, after: timesOfShares(chunk) } : how))
      }
    }
  }
  flush()
  return pieces
}

/** Rows that are copied: all of the source, or those after the rows that the target has. */
function countRows (parts: readonly DifferingGroup[], isAppended = false): number {
  return parts.reduce((sum, { source, target }) => sum + (source?.rows ?? 0) - (isAppended ? target?.rows ?? 0 : 0), 0)
}

function cut (parts: readonly DifferingGroup[], isAppended: boolean): DifferingGroup[][] {
  const chunks: DifferingGroup[][] = []
  for (const part of parts) {
    const last = chunks.at(-1)
    if (last !== undefined && countRows([...last, part], isAppended) <= PIECE_ROWS) last.push(part)
    else chunks.push([part])
  }
  return chunks
}

function toPiece (
  parts: readonly DifferingGroup[], { table, round }: PlanOptions, how: Pick<Piece, 'shares' | 'after' | 'isReplaced'>
): Piece {
  const groups = [...new Set(parts.map(({ group }) => group))]
  const state = parts.map(({ group, share, source, target }) =>
    [group, share, source?.rows, source?.checksum, target?.checksum])
  const hash = createHash('sha256').update(JSON.stringify([how, state])).digest('hex').slice(0, 32)
  return { groups, ...how, rows: countRows(parts, how.after !== undefined), token: `move:${table}:${round}:${hash}` }
}

/** A day of an event that is not the same on both sides. */
export interface DifferingEvents {
  day: number
  event: string
  source: number
  target: number
}

export function compareEvents (source: readonly EventDigest[], target: readonly EventDigest[]): DifferingEvents[] {
  return pairUp(source, target, ({ day, event }) => `${day} ${event}`)
    .filter(({ source, target }) => source?.checksum !== target?.checksum || source?.count !== target?.count)
    .map(({ each: { day, event }, source, target }) =>
      ({ day, event, source: source?.count ?? 0, target: target?.count ?? 0 }))
    .sort((a, b) => a.day - b.day || (a.event < b.event ? -1 : 1))
}
