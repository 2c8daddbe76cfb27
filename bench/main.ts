import { constants } from 'node:os'
import path from 'node:path'
import { Argument, Command } from 'commander'
import { readCount } from '../cli/read-arguments.ts'
import { startStack } from '../test/start-stack.ts'
import { compareResults, describeMachine, readBaseline, renderComparisons, writeResults } from './run-results.ts'
import { type Figure, printFigures, type Question } from './question.ts'
import { analysts } from './questions/analysts.bench.ts'
import { batch } from './questions/batch.bench.ts'
import { decide } from './questions/decide.bench.ts'
import { duplicates } from './questions/duplicates.bench.ts'
import { edge } from './questions/edge.bench.ts'
import { experiment } from './questions/experiment.bench.ts'
import { exporting } from './questions/export.bench.ts'
import { hindsight } from './questions/hindsight.bench.ts'
import { importing } from './questions/import.bench.ts'
import { query } from './questions/query.bench.ts'
import { receipts } from './questions/receipts.bench.ts'
import { shards } from './questions/shards.bench.ts'
import { single } from './questions/single.bench.ts'
import { visible } from './questions/visible.bench.ts'
import { watermark } from './questions/watermark.bench.ts'

/** In the order in which they run. */
const QUESTIONS: readonly Question[] = [
  batch, single, visible, duplicates, decide, query, edge, hindsight, receipts, watermark, importing, shards, analysts,
  experiment, exporting
]

const program = new Command('npm run bench --')
  .description('Asks questions about speed of the real stack, prints one table and writes it to bench/results/.')
  .addArgument(new Argument('[question...]', 'only these (default: all but the long ones)')
    .choices(QUESTIONS.map(({ name }) => name)))
  .option('--quick', 'each question once, and small')
  .option('--compare <results>', 'an earlier run; ends with 1 when a ratio got worse')
  .option('--repetitions <number>', 'of which the median is reported (default: 5, quick: 1)', readCount)
  .option('--events <number>', 'stored events that hindsight (default: a million), analysts and experiment (40 million) ask about', readCount)
  .option('--minutes <number>', 'of the load of watermark (default: 1)', readCount)
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
  .parse()
const options = program.opts<{
  quick?: true, compare?: string, repetitions?: number, events?: number, minutes?: number
}>()
const names = program.args
const isQuick = options.quick === true
const questions = QUESTIONS.filter(({ name, isLong }) =>
  names.length === 0 ? isLong !== true : names.includes(name))
const repetitions = options.repetitions ?? (isQuick ? 1 : 5)

// The whole suite stays within a quarter of an hour on a slow machine: what is left then is said and not asked. The
// longest of the last questions takes three minutes.
const MAX_SECONDS = 720

/** A question may take this multiple of its even share of the remaining time: most take much less. */
const SHARES = 2

// Read first: a file that cannot be compared is reported before the run.
const baseline = options.compare === undefined ? undefined : await readBaseline(options.compare, { isQuick })
const machine = await describeMachine()

const figures = new Map<string, Figure>()
const startedAt = performance.now()
const failures = new Map<string, string>()
let file = ''
const stack = await startStack()
// Otherwise the stack would outlive an interrupted run, and its data with it.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => { void stack.stop().finally(() => process.exit(128 + constants.signals[signal])) })
}
try {
  for (const question of questions) {
    const seconds = secondsSince(startedAt)
    const isLate = names.length === 0 && seconds > MAX_SECONDS
    process.stderr.write(`${seconds} s  ${question.name}: ${isLate ? 'not asked, the time is over' : question.asks}\n`)
    if (isLate) continue
    const port = Number(new URL(stack.url).port)
    try {
      const answered = await question.answer({
        stack, port, quick: isQuick, repetitions, deadline: deadlineOf(question),
        ...options.events !== undefined && { events: options.events },
        ...options.minutes !== undefined && { minutes: options.minutes }
      })
      for (const figure of answered) figures.set(`${question.name}/${figure.name}`, figure)
    } catch (error) {
      // The others are still worth asking, and what was measured is not thrown away.
      failures.set(question.name, error instanceof Error ? error.message : String(error))
      continue
    }
    file = await writeResults({ machine, isQuick, figures: Object.fromEntries(figures) }, names)
  }
} finally {
  await stack.stop()
}

printFigures(figures)
for (const [name, reason] of failures) process.stdout.write(`FAILED  ${name}: ${reason}\n`)
if (failures.size > 0) process.exitCode = 1
process.stdout.write(`${secondsSince(startedAt)} s, ${file === '' ? 'nothing written' : `written to ${path.relative(process.cwd(), file)}`}\n`)

if (baseline !== undefined) {
  const comparisons = compareResults(baseline, figures, { isSingle: repetitions === 1 })
  process.stdout.write(`\nratios, compared with ${options.compare}:\n${renderComparisons(comparisons)}`)
  if (comparisons.length === 0) throw new Error('the two runs have no ratio in common')
  if (comparisons.some(({ verdict }) => verdict === 'worse')) process.exitCode = 1
}

/** When a question should end: the time that is left is shared out among those that are left. */
function deadlineOf (question: Question): number {
  if (names.length > 0) return Infinity
  const left = questions.length - questions.indexOf(question)
  const leftMs = startedAt + MAX_SECONDS * 1000 - performance.now()
  return performance.now() + leftMs * Math.min(1, SHARES / left)
}

function secondsSince (at: number): number {
  return Math.round((performance.now() - at) / 1000)
}
