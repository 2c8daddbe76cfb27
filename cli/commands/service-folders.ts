/** Folders of a service: where its programs are, and those that its settings name, which its unit has to name, too. */
import { execFile } from 'node:child_process'
import { readFile, realpath, stat } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { MillraceError } from '../../engines/errors.ts'
import { loadSettings } from '../../platform/load-settings.ts'
import { settings, type SettingName } from '../../platform/settings.ts'
import { readEnvironmentFile } from './read-environment-file.ts'

/** Absolute paths, outside of the state directory of the service. */
export interface ServiceFolders {
  /** `MILLRACE_DATA_DIR`; the service does not start without it. */
  dataDir?: string | undefined
  /** `MILLRACE_BACKUP_FOLDER`; without it the service runs and its backups fail, which is an alert. */
  backups?: string | undefined
}

const run = promisify(execFile)

/** A service has these for itself: what it writes there nobody else sees, and it goes away with the service. */
const PRIVATE = ['/tmp', '/var/tmp']

/** systemd hides these folders from a service unless its unit says otherwise. */
const HOMES = ['/home', '/root', '/run/user']

/** The programs that a service runs, as absolute paths: the Node, and the entry point of the installation. */
export interface ServicePrograms {
  node: string
  entry: string
}

/**
 * Says why no service can run these programs, whoever its user is; undefined when one can.
 *
 * What is in /tmp is not there for a service, nor after the next boot.
 */
export async function findHiddenProgram ({ node, entry }: ServicePrograms): Promise<string | undefined> {
  for (const file of [node, entry]) {
    const hidden = await findFolder(file, PRIVATE)
    if (hidden !== undefined) return `${file} cannot be run by a service, which does not see ${hidden} of the system: ${INSTALL_ELSEWHERE}`
  }
  return undefined
}

const INSTALL_ELSEWHERE = 'install Millrace in a folder such as /opt/millrace (docs/install.md), and the service from there'

/**
 * Refuses programs that the service could not run: systemd would try every two seconds, with nothing but 203/EXEC in
 * the journal.
 *
 * @throws {MillraceError} `MILLRACE_SERVICE_REFUSED` naming the file, and where to install instead.
 */
export async function checkServicePrograms (programs: ServicePrograms, user: string): Promise<void> {
  const refuse = (why: string): MillraceError => new MillraceError('MILLRACE_SERVICE_REFUSED', why)
  const hidden = await findHiddenProgram(programs)
  if (hidden !== undefined) throw refuse(hidden)
  for (const [file, right] of [[programs.node, '-x'], [programs.entry, '-r']] as const) {
    if (await isTrueFor(user, [right, file])) continue
    throw refuse(`${file} cannot be run by the user ${user} of the service, who may not read it: ${INSTALL_ELSEWHERE}`)
  }
}

/** Whether systemd hides this file from a service whose unit does not say `ProtectHome=read-only`. */
export function isBelowHome (file: string): boolean {
  return HOMES.some((home) => isBelow(file, home))
}

/** The first of the folders that has this file, symbolic links followed on both sides, as systemd does. */
async function findFolder (file: string, folders: readonly string[]): Promise<string | undefined> {
  const real = await realpath(file).catch(() => file)
  for (const folder of folders) {
    if (isBelow(real, await realpath(folder).catch(() => folder))) return folder
  }
  return undefined
}

/**
 * Reads which folders the settings name. Settings that would stop the service at its start are refused now.
 *
 * @param file            Of the settings, which may be missing.
 * @param stateDirectory  What the service may write to anyway.
 * @throws {MillraceError} `MILLRACE_SERVICE_REFUSED` naming the lines that systemd reads otherwise than was meant, or
 * the settings whose folder is a relative path.
 * @throws {SettingsError} listing every unknown name, and every value that its setting does not take.
 */
export async function readServiceFolders (file: string, stateDirectory: string): Promise<ServiceFolders> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw new MillraceError('MILLRACE_SERVICE_REFUSED', `the settings ${file} cannot be read (${error.code}): use sudo`, { cause: error })
  })
  const { values: given, problems } = readEnvironmentFile(text)
  if (problems.length > 0) throw new MillraceError('MILLRACE_SERVICE_REFUSED', `the settings ${file} are not what they look like; ${problems.join('; ')}`)
  const relative = (['MILLRACE_DATA_DIR', 'MILLRACE_BACKUP_FOLDER'] as const)
    .filter((name) => (given[name] ?? '') !== '' && !path.isAbsolute(given[name]!))
  if (relative.length > 0) {
    throw new MillraceError('MILLRACE_SERVICE_REFUSED', `${relative.map((name) => `${name} is ${given[name]}`).join(' and ')} in the settings ${file}: ` +
      'give a path that begins with /, which means the same to the service and to those who look for its files')
  }
  const values = loadSettings(given, Object.keys(settings) as SettingName[])
  const outside = (folder: string): string | undefined => {
    const absolute = path.resolve(stateDirectory, folder)
    return isBelow(absolute, stateDirectory) ? undefined : absolute
  }
  return {
    dataDir: (given.MILLRACE_DATA_DIR ?? '') === '' ? undefined : outside(values.MILLRACE_DATA_DIR),
    backups: values.MILLRACE_BACKUP_FOLDER === '' ? undefined : outside(values.MILLRACE_BACKUP_FOLDER)
  }
}

/** @throws {MillraceError} `MILLRACE_SERVICE_REFUSED` when a folder is missing, or the user may not write to it. */
export async function checkServiceFolders ({ dataDir, backups }: ServiceFolders, user: string): Promise<void> {
  for (const [setting, folder] of [['MILLRACE_DATA_DIR', dataDir], ['MILLRACE_BACKUP_FOLDER', backups]] as const) {
    if (folder === undefined) continue
    const refuse = (why: string, remedy: string): MillraceError =>
      new MillraceError('MILLRACE_SERVICE_REFUSED', `${setting} is ${folder}, ${why}: ${remedy}; then install again`)
    const hidden = await findFolder(folder, PRIVATE)
    if (hidden !== undefined) throw refuse(`and a service does not see ${hidden} of the system`, 'choose a folder elsewhere')
    const isFolder = await stat(folder).then((found) => found.isDirectory(), () => false)
    const own = `install --directory --owner=${user} --group=${user} --mode=700 ${quoteForShell(folder)}`
    if (!isFolder) throw refuse('which is no folder', `make it with "${own}"`)
    if (!await isTrueFor(user, ['-w', folder, '-a', '-x', folder])) throw refuse(`where the user ${user} may not write`, `give it to that user with "${own}", or mount it writable`)
  }
}

/** Asks `test` with the groups of the user, as systemd starts it. Needs root. */
async function isTrueFor (user: string, question: readonly string[]): Promise<boolean> {
  const asUser = [`--reuid=${user}`, `--regid=${user}`, '--init-groups', 'test', ...question]
  return await run('setpriv', asUser).then(() => true, (error: { code?: unknown, stderr?: string }) => {
    if (error.code === 1 && error.stderr === '') return false
    throw error
  })
}

function isBelow (file: string, folder: string): boolean {
  return file === folder || file.startsWith(`${folder}/`)
}

function quoteForShell (text: string): string {
  return /^[\w./+@:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
