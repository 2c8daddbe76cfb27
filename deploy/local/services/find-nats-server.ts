import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { fetchDebianPackage } from './fetch-debian-package.ts'
import { findCacheDir } from '../data-dir/cache-dir.ts'
import { ServiceStartError } from '../processes/service.ts'

const run = promisify(execFile)

/** `sync_interval`, which lets an acknowledged message survive a power loss, came with 2.10. */
const OLDEST = [2, 10] as const

/** Releases of Debian whose nats-server is new enough, newest first. Both run on Debian 12 (libc 2.34 or newer). */
const SUITES = ['forky', 'trixie']

export interface FindNatsServerOptions {
  /** A binary the operator chose (`MILLRACE_NATS_SERVER`); it is used or it is an error. */
  chosen?: string | undefined
  /** Searched for `PATH`, `XDG_CACHE_HOME` and `HOME`. */
  env: NodeJS.ProcessEnv
  /** Where the binary is kept when the user has no writable cache folder. */
  dataDir: string
  /** Called before it is fetched, because that takes seconds. */
  onFetch?: (() => void) | undefined
  /** Cancels fetching. */
  signal?: AbortSignal | undefined
}

/**
 * Finds a nats-server of at least 2.10: the chosen one, else on PATH, else in the user's cache folder, else fetched
 * into it.
 *
 * @returns the path of the binary.
 * @throws {ServiceStartError} saying what to install and where to put it.
 */
export async function findNatsServer (options: FindNatsServerOptions): Promise<string> {
  const { chosen, env } = options
  if (chosen) {
    const version = await readVersion(chosen)
    if (version !== undefined && isNewEnough(version)) return chosen
    const what = version === undefined ? 'cannot be run' : `is version ${version.join('.')}, 2.10 or newer is needed`
    throw new ServiceStartError(`MILLRACE_NATS_SERVER=${chosen} ${what}`)
  }

  const cached = path.join(await findCacheDir(options), `nats-server-${process.platform}-${process.arch}`)
  const onPath = (env.PATH ?? '').split(path.delimiter).filter(Boolean).map((dir) => path.join(dir, 'nats-server'))
  for (const candidate of [...onPath, cached]) {
    const version = await readVersion(candidate)
    if (version !== undefined && isNewEnough(version)) return candidate
  }

  options.onFetch?.()
  try {
    const files = { 'usr/sbin/nats-server': cached }
    await fetchDebianPackage({ name: 'nats-server', suites: SUITES, files, signal: options.signal })
  } catch (cause) {
    throw new ServiceStartError(explainMissing(cached, cause), cause)
  }
  const version = await readVersion(cached)
  if (version !== undefined && isNewEnough(version)) return cached
  throw new ServiceStartError(explainMissing(cached, 'the fetched binary does not run on this machine'))
}

/** `2.15.1` as numbers, or undefined when the file is no nats-server that runs here. */
async function readVersion (binary: string): Promise<number[] | undefined> {
  try {
    await access(binary, constants.X_OK)
    const { stdout } = await run(binary, ['--version'], { timeout: 10_000 })
    return stdout.match(/v(\d+)\.(\d+)\.(\d+)/)?.slice(1).map(Number)
  } catch {
    // Missing or not executable here: simply no candidate.
    return undefined
  }
}

function isNewEnough ([major = 0, minor = 0]: readonly number[]): boolean {
  return major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])
}

function explainMissing (cached: string, cause: unknown): string {
  const why = (cause as { code?: string }).code === 'ENOENT'
    ? 'this machine has no apt to fetch it with'
    : cause instanceof Error ? cause.message : String(cause)
  return [
    'nats-server 2.10 or newer was not found on PATH and could not be fetched:',
    ...why.split('\n').map((line) => `  ${line}`),
    'Do one of these:',
    '  put a nats-server release (one binary) on PATH',
    '  set MILLRACE_NATS_SERVER=/path/to/nats-server',
    `  copy it to ${cached}`,
    '  set NATS_URL to a running server'
  ].join('\n')
}
