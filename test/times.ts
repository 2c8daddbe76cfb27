import { TEST_KINDS, type TestKind } from './kinds.ts'

/** How long a file of tests took. */
export interface TestTime {
  file: string
  ms: number
}

const SLOWEST = 20

/** The files and their time by layer, and the slowest of them. Several ran at a time. */
export function renderTimes (times: readonly TestTime[], kindOf: (file: string) => TestKind): string {
  const byKind = Map.groupBy(times, ({ file }) => kindOf(file))
  const kinds = TEST_KINDS.flatMap((kind) => {
    const own = byKind.get(kind) ?? []
    return own.length === 0 ? [] : [[kind, `${own.length} files`, inSeconds(sum(own))]]
  })
  const slowest = times.toSorted((a, b) => b.ms - a.ms).slice(0, SLOWEST)
  return [
    ...table(kinds),
    '', 'slowest:',
    ...table(slowest.map(({ file, ms }) => [`  ${file}`, kindOf(file), inSeconds(ms)]))
  ].join('\n') + '\n'
}

function sum (times: readonly TestTime[]): number {
  return times.reduce((total, { ms }) => total + ms, 0)
}

/** A time in a column. */
export function inSeconds (ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`.padStart(8)
}

function table (rows: string[][]): string[] {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  return rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ').trimEnd())
}
