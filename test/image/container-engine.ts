/** Docker or podman: whichever is here, by the commands that both have. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { waitFor } from '../support/wait-for.ts'

const run = promisify(execFile)
const ENGINES = ['docker', 'podman'] as const

export interface Outcome {
  code: number
  /** Standard output and error. */
  text: string
}

export interface Engine {
  name: typeof ENGINES[number]
  /** @returns what it wrote to standard output. @throws with what it wrote to standard error. */
  run (...args: string[]): Promise<string>
  /** The same for a command that may fail. */
  try (...args: string[]): Promise<Outcome>
}

export interface Container {
  name: string
  /** Address at which this machine reaches a port of it, as `127.0.0.1:49153`. */
  address (port: number): Promise<string>
  exec (...command: string[]): Promise<string>
  /** What its first process has written since it was made. */
  logs (): Promise<string>
}

/** @returns undefined where neither answers. */
export async function findEngine (): Promise<Engine | undefined> {
  for (const name of ENGINES) {
    const engine = createEngine(name)
    if ((await engine.try('info')).code === 0) return engine
  }
  return undefined
}

function createEngine (name: Engine['name']): Engine {
  const options = { maxBuffer: 64 * 1024 * 1024 }
  return {
    name,
    async run (...args) { return (await run(name, args, options)).stdout },
    async try (...args) {
      return await run(name, args, options).then(
        ({ stdout, stderr }) => ({ code: 0, text: stdout + stderr }),
        (error: { code?: unknown, stdout?: string, stderr?: string }) =>
          ({ code: Number(error.code) || 1, text: `${error.stdout ?? ''}${error.stderr ?? ''}` }))
    }
  }
}

export function openContainer (engine: Engine, name: string): Container {
  return {
    name,
    async address (port) { return (await engine.run('port', name, `${port}/tcp`)).trim().split('\n')[0]! },
    async exec (...command) { return await engine.run('exec', name, ...command) },
    async logs () { return (await engine.try('logs', name)).text }
  }
}

interface ContainerOptions {
  name: string
  /** Default: that of docker, whatever the default of the engine is. */
  network?: 'bridge' | 'none'
  flags: readonly string[]
  /** The image, and arguments for it. */
  command: readonly string[]
}

/** Starts a container in the background. */
export async function startContainer (
  engine: Engine, { name, network = 'bridge', flags, command }: ContainerOptions
): Promise<Container> {
  await engine.run('run', '--detach', '--network', network, '--name', name, ...flags, ...command)
  return openContainer(engine, name)
}

/** Waits until Millrace has become ready so often in the container. @throws with its logs when it ends before. */
export async function waitUntilReady (engine: Engine, container: Container, times = 1): Promise<string> {
  const logs = await waitFor(async () => {
    const text = await container.logs()
    if (text.split('Millrace is ready').length > times) return text
    const isRunning = (await engine.run('inspect', '--format', '{{.State.Running}}', container.name)).trim() === 'true'
    return isRunning ? undefined : `it ended: ${text}`
  }, { timeoutMs: 240_000, everyMs: 500 })
  if (logs.startsWith('it ended')) throw new Error(logs)
  return logs
}
