import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { errorCode } from '../../engines/errors.ts'
import { fetchDebianPackage } from '../supervisor/fetch-debian-package.ts'
import { OLDEST_NATS_SERVER, survivesPowerCut } from '../../platform/nats/nats-server-floor.ts'
import { compareVersions } from '../../schema/version.ts'
import { findCacheDir } from '../data-dir/cache-dir.ts'
import { ServiceStartError } from '../supervisor/processes/service.ts'

const run = promisify(execFile)

/**
 * Releases of Debian whose nats-server is new enough; trixie's (2.10.27) is not. They run on Debian 12 (libc 2.34 or
 * newer).
 */
const SUITES = ['forky', 'sid']

export interface FindNatsServerOptions {
  /** A binary the operator chose (`MILLRACE_NATS_SERVER`); it is used or it is an error. */
  chosen?: string | undefined
  /** Searched for `PATH`, `XDG_CACHE_HOME` and `HOME`. */
  env: NodeJS.ProcessEnv
  /** Where the binary is kept when the user has no writable cache folder. */
  dataDir: string
  /** Called before it is fetched, because that takes seconds. */
  onFetch?: (() => void) | undefined
  signal?: AbortSignal | undefined
}

/**
 * Finds a nats-server that keeps the promise about power cuts: the chosen one, else the newest on PATH and in the
 * user's cache folder, else one that is fetched into that.
 *
 * @returns the path of the binary.
 * @throws {ServiceStartError} saying what to install and where to put it.
 */
export async function findNatsServer (options: FindNatsServerOptions): Promise<string> {
  const { chosen, env } = options
  if (chosen) return await takeChosen(chosen)

  const cached = path.join(await findCacheDir(options), `nats-server-${process.platform}-${process.arch}`)
  const onPath = (env.PATH ?? '').split(path.delimiter).filter(Boolean).map((dir) => path.join(dir, 'nats-server'))
  const newest = await findNewest([...onPath, cached])
  if (newest !== undefined) return newest

  options.onFetch?.()
  try {
    const files = { 'usr/sbin/nats-server': cached }
    await fetchDebianPackage({ name: 'nats-server', suites: SUITES, files, signal: options.signal })
  } catch (cause) {
    throw new ServiceStartError(explainMissing(cached, cause), cause)
  }
  const version = await readVersion(cached)
  if (survivesPowerCut(version ?? '')) return cached
  throw new ServiceStartError(explainMissing(cached, version === undefined
    ? 'the fetched binary does not run on this machine'
    : `Debian has version ${version}`))
}

/** The newest that survives a power cut; of equal ones the first. */
async function findNewest (candidates: readonly string[]): Promise<string | undefined> {
  const versions = await Promise.all(candidates.map(async (binary) => ({ binary, version: await readVersion(binary) ?? '' })))
  const [newest] = versions.filter(({ version }) => survivesPowerCut(version))
    .sort((one, other) => compareVersions(other.version, one.version))
  return newest?.binary
}

async function takeChosen (chosen: string): Promise<string> {
  const version = await readVersion(chosen)
  if (survivesPowerCut(version ?? '')) return chosen
  throw new ServiceStartError(`MILLRACE_NATS_SERVER=${chosen} is ${version === undefined
    ? 'not a nats-server that can run here'
    : `version ${version}, which may lose acknowledged events when the power is cut: use ${OLDEST_NATS_SERVER} or newer`}`)
}

/** `2.15.1`, or undefined when the file is not a nats-server that can run here. */
async function readVersion (binary: string): Promise<string | undefined> {
  try {
    await access(binary, constants.X_OK)
    const { stdout } = await run(binary, ['--version'], { timeout: 10_000 })
    return stdout.match(/v(\d+\.\d+\.\d+)/)?.[1]
  } catch {
    // Missing or not executable here: simply no candidate.
    return undefined
  }
}

function explainMissing (cached: string, cause: unknown): string {
  const why = errorCode(cause) === 'ENOENT'
    ? 'this machine has no apt to fetch it with'
    : cause instanceof Error ? cause.message : String(cause)
  return [
    `nats-server ${OLDEST_NATS_SERVER} or newer was not found on PATH and could not be fetched:`,
    ...why.split('\n').map((line) => `  ${line}`),
    'Do one of these:',
    '  put a nats-server release (one binary) on PATH',
    '  set MILLRACE_NATS_SERVER=/path/to/nats-server',
    `  copy it to ${cached}`,
    '  set NATS_URL to a running server'
  ].join('\n')
}
