/**
 * `npm run fuzz:analyst -- --queries 100000 --seed 1`: attacks the login of analysts with spellings of everything
 * that it must not name. Ends with status 1 when one is answered or a canary is reached.
 */
import { parseArgs } from 'node:util'
import { hasCanary, openRange, type Outcome } from './run-attacks.ts'

const { values } = parseArgs({
  options: {
    queries: { type: 'string', default: '100000' },
    seed: { type: 'string', default: String(Date.now() % 1e9) }
  }
})
const queries = Number(values.queries)
const seed = Number(values.seed)
if (!Number.isSafeInteger(queries) || queries < 1 || !Number.isSafeInteger(seed)) {
  throw new Error('--queries and --seed are whole numbers')
}

const cleanUp: Array<() => unknown> = []
const range = await openRange({ after: (work) => cleanUp.unshift(work) })
const startedAt = performance.now()
console.log(`attacking with ${queries} queries, seed ${seed}`)
const outcome = await range.attack({ user: 'analyst', queries, seed })
const seconds = Math.round((performance.now() - startedAt) / 1000)
const unguarded = await range.attack({ user: 'owner', queries: 500, seed, isWanted: hasCanary })
for (const work of cleanUp) await work()

const holes = [...outcome.answered, ...outcome.secretsSeen]
for (const hole of holes.slice(0, 20)) console.log('REACHED', JSON.stringify(hole))
console.log(`analyst: ${outcome.queries} queries in ${seconds} s, ${describe(outcome)}`)
console.log(`without the guard: ${unguarded.queries} queries on what has a canary, ${describe(unguarded)}`)
process.exitCode = holes.length > 0 || outcome.connections > 0 || outcome.filesWritten.length > 0 ? 1 : 0

function describe (of: Outcome): string {
  return `${of.refusedByGuard} refused by the guard, ${of.refusedByEngine} by the engine, ${of.answered.length} answered, ` +
    `${of.secretsSeen.length} with a secret, ${of.connections} connections, ${of.filesWritten.length} files written`
}
