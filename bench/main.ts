import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { startStack } from '../test/start-stack.ts'
import { batch } from './batch.bench.ts'
import { compareResults } from './compare-results.ts'
import { describeMachine } from './describe-machine.ts'
import { decide } from './decide.bench.ts'
import { definitions } from './definitions.bench.ts'
import { direct } from './direct.bench.ts'
import { floor } from './floor.bench.ts'
import { growth } from './growth.bench.ts'
import { large } from './large.bench.ts'
import { printFigures } from './print-figures.ts'
import { promote } from './promote.bench.ts'
import { query } from './query.bench.ts'
import { type Figure, type Question } from './question.ts'
import { single } from './single.bench.ts'
import { visible } from './visible.bench.ts'

/** In the order in which they run: later ones may compare with earlier ones. */
const QUESTIONS: readonly Question[] = [
  batch, floor, direct, single, large, visible, decide, definitions, growth, query, promote
]

const { values: options, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    compare: { type: 'string' },
    repetitions: { type: 'string' }
  }
})
const questions = QUESTIONS.filter(({ name }) => names.length === 0 || names.includes(name))
const repetitions = Number(options.repetitions ?? (options.quick ? 1 : 5))

const figures = new Map<string, Figure>()
const stack = await startStack()
try {
  for (const question of questions) {
    process.stderr.write(`${question.name}: ${question.asks}\n`)
    const port = Number(new URL(stack.url).port)
    const answered = await question.answer({ stack, port, quick: options.quick, repetitions, figures })
    for (const figure of answered) figures.set(`${question.name}/${figure.name}`, figure)
  }
} finally {
  await stack.stop()
}

printFigures(figures)
const machine = await describeMachine()
const folder = path.join(import.meta.dirname, 'results')
await mkdir(folder, { recursive: true })
const file = path.join(folder, `${machine.date.slice(0, 10)}-${machine.commit}${options.quick ? '-quick' : ''}.json`)
await writeFile(file, `${JSON.stringify({ machine, figures: Object.fromEntries(figures) }, null, 2)}\n`)
process.stdout.write(`written to ${path.relative(process.cwd(), file)}\n`)

if (options.compare !== undefined) {
  const baseline = JSON.parse(await readFile(options.compare, 'utf8')) as { figures: Record<string, Figure> }
  const worse = compareResults(new Map(Object.entries(baseline.figures)), figures)
  for (const line of worse) process.stdout.write(`worse: ${line}\n`)
  if (worse.length > 0) process.exitCode = 1
}
