import { type Stack } from '../test/start-stack.ts'

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
  /** Figures of the questions that ran before, by `question/figure`. */
  figures: ReadonlyMap<string, Figure>
}

/** One file of `bench/`: a question about speed and how it is answered. */
export interface Question {
  name: string
  asks: string
  /** Takes minutes by its nature: asked only by name. */
  isLong?: boolean
  answer (context: BenchContext): Promise<Figure[]>
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
export function reachesTarget (figure: Figure): boolean | undefined {
  if (figure.target === undefined) return undefined
  const measured = ratioOf(figure) ?? figure.value
  return 'atMost' in figure.target ? measured <= figure.target.atMost : measured >= figure.target.atLeast
}
