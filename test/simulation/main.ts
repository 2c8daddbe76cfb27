/**
 * Simulates the way of an event with a virtual clock, many times, each time with other faults.
 *
 *     node test/simulation/main.ts [--seeds N] [--from S] [--once] [--trace]
 *
 * Each seed runs twice by default, and must behave the same both times. Exits with 1 at the first seed in which
 * something is wrong.
 */
import './virtual-time.ts'
import './fake-disk.ts'
import './fake-pg.ts'
import { parseArgs } from 'node:util'
import { runContractSteps, runSeed } from './run-seed.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '100' },
    from: { type: 'string', default: '1' },
    trace: { type: 'boolean', default: false },
    contract: { type: 'boolean', default: false },
    once: { type: 'boolean', default: false }
  }
})
const [from, seeds] = [Number(values.from), Number(values.seeds)]

if (values.contract) console.log(JSON.stringify(await runContractSteps()))
else process.exitCode = await runSeeds()
process.exit()

/** @returns the status of the process. */
async function runSeeds (): Promise<number> {
  // Errors are made all the time, and read only where something is wrong.
  if (!values.trace) Error.stackTraceLimit = 0
  // What libraries draw once in a process, they draw here.
  await runSeed(0)
  const cpuAtStart = process.cpuUsage()
  const cpuSeconds = (): string => {
    const { user, system } = process.cpuUsage(cpuAtStart)
    return ((user + system) / 1e6).toFixed(1)
  }
  for (let seed = from; seed < from + seeds; seed++) {
    const { violations, trace } = await runSeed(seed).catch((error: unknown) => {
      throw new Error(`seed ${seed}`, { cause: error })
    })
    if (values.trace) for (const line of trace) console.log(line)
    if (violations.length > 0) {
      console.log(`seed ${seed}: ${violations.slice(0, 5).join('; ')}\nrepeat it with: node test/simulation/main.ts --from ${seed} --seeds 1 --trace`)
      return 1
    }
    if (seed % 1000 === 0) console.log(`up to ${seed}, ${cpuSeconds()} s of CPU`)
    if (values.once) continue
    const again = await runSeed(seed)
    const difference = trace.findIndex((line, index) => line !== again.trace[index])
    if (difference !== -1 || trace.length !== again.trace.length) {
      console.log(`seed ${seed} is not the same twice, from line ${difference}: ${trace[difference]} / ${again.trace[difference]}`)
      return 1
    }
  }
  console.log(`${seeds} seeds from ${from}, ${cpuSeconds()} s of CPU`)
  return 0
}
