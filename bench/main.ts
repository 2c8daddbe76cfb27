import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { startStack } from '../test/start-stack.ts'
import { batch } from './questions/batch.bench.ts'
import { compareResults } from './compare-results.ts'
import { describeMachine } from './describe-machine.ts'
import { decide } from './questions/decide.bench.ts'
import { definitions } from './questions/definitions.bench.ts'
import { direct } from './questions/direct.bench.ts'
import { floor } from './questions/floor.bench.ts'
import { growth } from './questions/growth.bench.ts'
import { large } from './questions/large.bench.ts'
import { printFigures } from './print-figures.ts'
import { promote } from './questions/promote.bench.ts'
import { query } from './questions/query.bench.ts'
import { type Figure, type Question } from './question.ts'
import { single } from './questions/single.bench.ts'
import { soak } from './questions/soak.bench.ts'
import { visible } from './questions/visible.bench.ts'

/** In the order in which they run: later ones may compare with earlier ones. */
const QUESTIONS: readonly Question[] = [
  batch, floor, direct, single, visible, large, growth, decide, definitions, query, promote, soak
]

const { values: options, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    compare: { type: 'string' },
    repetitions: { type: 'string' }
  }
})
const unknown = names.filter((name) => !QUESTIONS.some((question) => question.name === name))
if (unknown.length > 0) {
  throw new Error(`no question ${unknown.join(', ')}; there are ${QUESTIONS.map(({ name }) => name).join(', ')}`)
}
const questions = QUESTIONS.filter(({ name, isLong }) =>
  names.length === 0 ? isLong !== true : names.includes(name))
const repetitions = Number(options.repetitions ?? (options.quick ? 1 : 5))

// The whole suite stays within a quarter of an hour on a slow machine: what is left then is said and not asked.
const MAX_SECONDS = 870

const machine = await describeMachine()
const folder = path.join(import.meta.dirname, 'results')
await mkdir(folder, { recursive: true })
const file = path.join(folder, `${machine.date.slice(0, 10)}-${machine.commit}${options.quick ? '-quick' : ''}.json`)

const figures = new Map<string, Figure>()
const startedAt = performance.now()
const stack = await startStack()
try {
  for (const question of questions) {
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    const isLate = names.length === 0 && seconds > MAX_SECONDS
    process.stderr.write(`${seconds} s  ${question.name}: ${isLate ? 'not asked, the time is over' : question.asks}\n`)
    if (isLate) continue
    const port = Number(new URL(stack.url).port)
    const answered = await question.answer({ stack, port, quick: options.quick, repetitions, figures })
    for (const figure of answered) figures.set(`${question.name}/${figure.name}`, figure)
    // After each question, so that an interrupted run leaves what it measured.
    await writeFile(file, `${JSON.stringify({ machine, figures: Object.fromEntries(figures) }, null, 2)}\n`)
  }
} finally {
  await stack.stop()
}

printFigures(figures)
process.stdout.write(`written to ${path.relative(process.cwd(), file)}\n`)

if (options.compare !== undefined) {
  const baseline = JSON.parse(await readFile(options.compare, 'utf8')) as { figures: Record<string, Figure> }
  const worse = compareResults(new Map(Object.entries(baseline.figures)), figures)
  for (const line of worse) process.stdout.write(`worse: ${line}\n`)
  if (worse.length > 0) process.exitCode = 1
}
