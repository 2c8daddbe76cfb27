import type { Stack } from '../test/start-stack.ts'

/** One measured number, with the reference measured in the same run where there is one. */
export interface Figure {
  name: string
  value: number
  unit: string
  /** What the value is compared with: its name and value in the same unit. */
  reference?: { name: string, value: number }
  /** What docs and issues ask of the ratio (or of the value, without a reference). */
  target?: { atMost: number } | { atLeast: number }
}

/** What a question may use. */
export interface BenchContext {
  stack: Stack
  /** Port of the origin. */
  port: number
  /** Shorter runs: fewer requests, one repetition. */
  quick: boolean
  /** Repetitions whose median is reported. */
  repetitions: number
  /** Stored events, for a question that asks about them; undefined: as many as it takes by itself. */
  events?: number
  /** Minutes of a steady load; undefined: as many as the question takes by itself. */
  minutes?: number
  /** When it should not begin another repetition, by `performance.now()`; Infinity when it is named. */
  deadline: number
}

/** One file of `bench/`: a question about speed and how it is answered. */
export interface Question {
  name: string
  asks: string
  /** Takes minutes by its nature: asked only by name. */
  isLong?: boolean
  answer (context: BenchContext): Promise<Figure[]>
}

/**
 * Repeats a measurement after a first one that warms up compilers, caches and connections: as often as asked for, or
 * until the question's time is over, and once at least.
 */
export async function repeat<T> (
  { repetitions, deadline }: Pick<BenchContext, 'repetitions' | 'deadline'>, run: (repetition: number) => Promise<T>
): Promise<T[]> {
  await run(0)
  const results: T[] = []
  do results.push(await run(results.length + 1))
  while (results.length < repetitions && performance.now() < deadline)
  return results
}

export function median (values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1
    ? sorted[middle] as number
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2
}

export function percentile (values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

/** The ratio that a comparison between two machines may use; absent when the figure has no reference. */
export function ratioOf (figure: Figure): number | undefined {
  return figure.reference === undefined ? undefined : figure.value / figure.reference.value
}

/** Whether the figure reaches its target; undefined when it has none. */
function reachesTarget (figure: Figure): boolean | undefined {
  if (figure.target === undefined) return undefined
  const measured = ratioOf(figure) ?? figure.value
  return 'atMost' in figure.target ? measured <= figure.target.atMost : measured >= figure.target.atLeast
}

/** Prints one table: figure, value, what it is compared with, ratio, target. */
export function printFigures (figures: ReadonlyMap<string, Figure>): void {
  const rows = [...figures].map(([name, figure]) => {
    const ratio = ratioOf(figure)
    const reached = reachesTarget(figure)
    return [
      name,
      `${format(figure.value)} ${figure.unit}`,
      figure.reference === undefined ? '' : `${format(figure.reference.value)} (${figure.reference.name})`,
      ratio === undefined ? '' : ratio.toFixed(2),
      figure.target === undefined ? '' : describe(figure.target),
      reached === undefined ? '' : reached ? 'reached' : 'missed'
    ]
  })
  const table = [['figure', 'value', 'reference', 'ratio', 'target', ''], ...rows]
  const widths = table[0]?.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0))) ?? []
  for (const row of table) {
    process.stdout.write(`${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ').trimEnd()}\n`)
  }
}

function format (value: number): string {
  return value >= 1000
    ? Math.round(value).toLocaleString('en')
    : value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)
}

function describe (target: NonNullable<Figure['target']>): string {
  return 'atMost' in target ? `<= ${format(target.atMost)}` : `>= ${format(target.atLeast)}`
}
