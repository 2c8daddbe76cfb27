import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { createInterface } from 'node:readline'

const WORKER = path.join(import.meta.dirname, 'test-worker.ts')
/** A file has its own limit (`FILE_TIMEOUT_MS` of the worker); this one is for a worker that is stuck. */
const STUCK_MS = 600_000
/** So long a worker may take to close what its files share. */
const END_MS = 20_000

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
 * @param options.results  Folder that gets the output of each file.
 */
export async function runTestFiles (
  files: readonly TestFile[], options: { jobs: number, results: string, onResult: (result: TestResult) => void }
): Promise<void> {
  const waiting = [...files]
  const lane = async (): Promise<void> => {
    let worker: Worker | undefined
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      if (worker !== undefined && (next.group === null || next.group !== worker.group)) {
        await worker.end()
        worker = undefined
      }
      worker ??= startWorker(next)
      const result = await worker.run(next.file)
      await keep(options.results, result)
      options.onResult(result)
      if (result.isPassed) continue
      // What a failed file left behind disturbs no other.
      await worker.end()
      worker = undefined
    }
    await worker?.end()
  }
  await Promise.all(Array.from({ length: options.jobs }, lane))
}

function startWorker ({ group, env }: TestFile): Worker {
  const child = fork(WORKER, { env, stdio: ['ignore', 'pipe', 'inherit', 'ipc'], execArgv: [] })
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
