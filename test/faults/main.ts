/**
 * Breaks a running system again and again, and looks whether an event was lost or counted twice:
 *
 *     npm run faults -- [--minutes 10] [--seed 1] [--fault NAME]... [--rate 1500] [--logs] [--tamper] [--list]
 *
 * Prints a table by fault and exits with 1 when anything differs, with 2 when it could not run. Logs are kept when
 * something differs, or with `--logs`. A run of 8 minutes or more injects each fault at least once, however long that
 * takes. `--tamper` removes one stored event and repeats another before the comparison, which then has to end with 1.
 *
 * In order: `system/` starts what is broken, `load/` sends to it and remembers what was acknowledged, `run-faults.ts`
 * breaks it in one of the ways in `kinds/` after the other, `audit/` compares and reports.
 */
import { parseArgs } from 'node:util'
import { isClean, renderReport } from './audit/fault-report.ts'
import { FAULTS } from './kinds/faults.ts'
import { enterMountNamespace } from './system/mount-namespace.ts'
import { openFaultSystem } from './system/open-fault-system.ts'
import { createRandom } from '../support/random.ts'
import { runFaults } from './run-faults.ts'
import { tamper } from './audit/tamper.ts'

/** From here on pauses last 30 s and outages 60 s, and there is time for every fault. */
const LONG_RUN_MINUTES = 8

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string' },
    fault: { type: 'string', multiple: true, default: [] },
    rate: { type: 'string', default: '1500' },
    logs: { type: 'boolean', default: false },
    tamper: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false }
  }
})

if (values.list) {
  for (const { name, what } of FAULTS) process.stdout.write(`${name.padEnd(24)}${what}\n`)
} else {
  process.exitCode = await enterMountNamespace() ?? await run()
}

async function run (): Promise<number> {
  const minutes = readPositive('--minutes', values.minutes)
  const seed = values.seed === undefined ? Date.now() % 1_000_000 : readPositive('--seed', values.seed)
  const unknown = values.fault.filter((name) => !FAULTS.some((fault) => fault.name === name))
  if (unknown.length > 0) return fail(`there is no fault ${unknown.join(', ')}; see --list`)
  const faults = FAULTS.filter(({ name }) => values.fault.length === 0 || values.fault.includes(name))
  const isLong = minutes >= LONG_RUN_MINUTES || values.fault.length === 1
  const stopped = new AbortController()
  process.once('SIGINT', () => stopped.abort())
  process.once('SIGTERM', () => stopped.abort())

  const startedAt = performance.now()
  const say = (line: string): void => {
    process.stderr.write(`${((performance.now() - startedAt) / 1000).toFixed(0).padStart(5)} s  ${line}\n`)
  }
  say(`seed ${seed}, ${minutes} minutes, ${faults.length} faults`)
  try {
    const wantsSmallDisk = faults.some(({ name }) => name === 'disk-full')
    await using opened = await openFaultSystem({ signal: stopped.signal, wantsSmallDisk })
    if (wantsSmallDisk && opened.disk === null) say('DISK-FULL IS NOT RUN: a small disk cannot be mounted here')
    const report = await runFaults(opened.system, {
      faults, isLong, random: createRandom(seed), disk: opened.disk, signal: stopped.signal, onProgress: say,
      durationMs: minutes * 60_000, eachOnce: minutes >= LONG_RUN_MINUTES,
      eventsPerSecond: readPositive('--rate', values.rate), ...values.tamper ? { tamper } : {}
    })
    process.stdout.write(renderReport(report))
    if (values.logs || !isClean(report)) process.stdout.write(`logs: ${await opened.keepLogs()}\n`)
    return isClean(report) ? 0 : 1
  } catch (error) {
    return fail(error instanceof Error ? error.stack ?? error.message : String(error))
  }
}

function readPositive (name: string, text: string): number {
  const value = Number(text)
  if (value > 0) return value
  process.stderr.write(`${name} must be a number above 0, but is ${text}\n`)
  process.exit(2)
}

function fail (why: string): number {
  process.stderr.write(`${why}\n`)
  return 2
}
