import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'

const WORKER = path.join(import.meta.dirname, 'test-worker.ts')
/** Limit of a file, as of a test that hangs in it: the slowest takes three minutes here, on a slow machine fifteen. */
export const FILE_TIMEOUT_MS = Number(process.env.TAP_TIMEOUT ?? 1200) * 1000
/** For a worker that is stuck, and later. */
const STUCK_MS = FILE_TIMEOUT_MS + 120_000
/** So long a worker may take to close what its files share. */
const END_MS = 20_000
/**
 * A worker loads some thousand modules and makes much garbage: with a larger space for what is young it takes a
 * twentieth less of the CPU. What measures itself has the usual one.
 */
const SHARED_PROCESS_ARGV = ['--max-semi-space-size=64']
/** Interval between looks at the load of the machine, ms. */
const LOAD_INTERVAL_MS = 1500
/** A further process works while so much of all cores is idle, and rests when less than the second is. */
const IDLE = { start: 0.15, end: 0.04 }
/** A whole system of a test, with its browser, has less. */
const FREE_BYTES = 3e9

/** A file of tests to be run, and the process that it needs. */
export interface TestFile {
  file: string
  /** Workers of one group are one process; `null`: in a process of its own. */
  group: string | null
  env: NodeJS.ProcessEnv
}

export interface TestResult {
  file: string
  isPassed: boolean
  ms: number
  /** What the worker printed meanwhile, as TAP. */
  output: string
}

interface Worker {
  group: string | null
  /** Runs a file. Answers when it is done, or when the process is gone. */
  run: (file: string) => Promise<TestResult>
  end: () => Promise<void>
}

/**
 * Runs files of tests in several processes at a time, in the order given. A process goes on with the next file of its
 * group; after a failure, and for another group, a new one starts.
 *
 * Many files wait most of their time and some compute all of it, so the number of processes at work follows the load.
 * One that is too many rests until there is room again: to start another takes seconds of CPU.
 *
 * @param options.jobs  Processes at a time, whatever the load.
 * @param options.mostJobs  Processes at a time while cores are idle.
 * @param options.results  Folder that gets the output of each file.
 */
export async function runTestFiles (files: readonly TestFile[], { jobs, mostJobs, results, onResult }: {
  jobs: number, mostJobs: number, results: string, onResult: (result: TestResult) => void
}): Promise<void> {
  const waiting = [...files]
  const lanes: Promise<void>[] = []
  const resting: Worker[] = []
  let running = 0
  let idle = 0
  const isCrowded = (): boolean => running > jobs && idle < IDLE.end
  const findWorker = (file: TestFile): Worker => {
    const index = resting.findIndex(({ group }) => group === file.group)
    return index === -1 ? startWorker(file) : resting.splice(index, 1)[0]!
  }
  const lane = async (): Promise<void> => {
    running++
    let worker: Worker | undefined
    for (let next = waiting.shift(); next !== undefined; next = isCrowded() ? undefined : waiting.shift()) {
      if (worker !== undefined && (next.group === null || next.group !== worker.group)) {
        await worker.end()
        worker = undefined
      }
      worker ??= findWorker(next)
      const result = await worker.run(next.file)
      await keep(results, result)
      onResult(result)
      if (result.isPassed) continue
      // What a failed file left behind disturbs no other.
      await worker.end()
      worker = undefined
    }
    running--
    if (worker === undefined) return
    if (waiting.length > 0 && worker.group !== null) resting.push(worker)
    else await worker.end()
  }
  const measureIdle = createIdleMeter()
  const timer = setInterval(() => {
    idle = measureIdle()
    const mayStart = running < mostJobs && waiting.length > 0 && process.availableMemory() > FREE_BYTES
    if (mayStart && idle > IDLE.start) lanes.push(lane())
  }, LOAD_INTERVAL_MS)
  lanes.push(...Array.from({ length: jobs }, lane))
  // Lanes may be added meanwhile.
  for (const each of lanes) await each
  clearInterval(timer)
  for (const worker of resting) await worker.end()
}

/** @returns a function that tells the idle share of all cores since its last call. */
function createIdleMeter (): () => number {
  const read = (): { idle: number, all: number } => {
    const times = cpus().map((cpu) => cpu.times)
    const sum = (values: number[]): number => values.reduce((total, value) => total + value, 0)
    return { idle: sum(times.map(({ idle }) => idle)), all: sum(times.flatMap((each) => Object.values(each))) }
  }
  let before = read()
  return () => {
    const now = read()
    const share = (now.idle - before.idle) / Math.max(1, now.all - before.all)
    before = now
    return share
  }
}

function startWorker ({ group, env }: TestFile): Worker {
  const child = fork(WORKER, { env, stdio: ['ignore', 'pipe', 'inherit', 'ipc'], execArgv: group === null ? [] : SHARED_PROCESS_ARGV })
  // A pipe, by the options above.
  const lines = createInterface({ input: child.stdout! })
  const exited = once(child, 'exit')
  child.on('error', () => {})
  return {
    group,
    async run (file) {
      const startedAt = performance.now()
      const stuck = setTimeout(() => child.kill('SIGKILL'), STUCK_MS)
      const output: string[] = []
      let outcome: boolean | undefined
      const done = Promise.withResolvers<undefined>()
      const read = (line: string): void => {
        output.push(line)
        const [, result] = /^((?:not )?ok) \d+ - /.exec(line) ?? []
        if (result !== undefined) outcome = result === 'ok'
        // The details of a failed file come behind its line.
        if (outcome === true || (outcome === false && line === '  ...')) done.resolve(undefined)
      }
      lines.on('line', read)
      child.send(file)
      const crash = exited.then(([code, signal]) => `# the process ended with ${String(signal ?? code)}`)
      const reason = await Promise.race([done.promise, crash])
      if (reason !== undefined) output.push(reason)
      lines.off('line', read)
      clearTimeout(stuck)
      return { file, isPassed: reason === undefined && outcome === true, ms: performance.now() - startedAt, output: output.join('\n') }
    },
    async end () {
      const late = setTimeout(() => child.kill('SIGKILL'), END_MS)
      if (child.connected) child.disconnect()
      await exited
      clearTimeout(late)
    }
  }
}

async function keep (folder: string, { file, output }: TestResult): Promise<void> {
  const target = path.join(folder, `${file}.tap`)
  await mkdir(path.dirname(target), { recursive: true })
  await writeFile(target, `${output}\n`)
}

/** Passes the signals that end this process on to a child; resolves with its exit code. */
export async function ended (child: ChildProcess): Promise<number> {
  const passOn = (signal: NodeJS.Signals): void => { child.kill(signal) }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, passOn)
  const [code] = await once(child, 'exit') as [number | null]
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, passOn)
  return code ?? 1
}
