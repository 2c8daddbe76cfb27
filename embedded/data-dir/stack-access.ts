/** How a stack is reached: its keys and passwords (`credentials.json`), and its URLs (`addresses.json`). */
import { randomBytes } from 'node:crypto'
import { access, chmod, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { errorCode, MillraceError } from '../../engines/errors.ts'
import { mintKey } from '../../schema/key-text.ts'
import { flushFolder } from '../../platform/durable-folder.ts'
import { listRecordedProcesses } from '../supervisor/processes/recorded-processes.ts'
import type { StackSettings } from '../supervisor/stack-settings.ts'
import { isHeldElsewhere, readLockHolder } from './data-dir-lock.ts'

/** Keys and passwords of the embedded stack: generated once, kept in the data directory. */
export interface Credentials {
  /** Key of project 1; public, in every client. */
  projectApiKey: string
  /** Key of the first user, for management. */
  personalApiKey: string
  /** Of the superuser `millrace`; fixed once its files exist. */
  postgresPassword: string
  /** Of the ClickHouse user `millrace`. */
  clickhousePassword: string
  /** Of the read-only ClickHouse user `analyst`. */
  analystPassword: string
}

/** Where the parts of a running stack answer; passwords are part of the URLs. */
export interface StackAddresses {
  pid: number
  /** The one origin for SDKs and management. */
  baseUrl: string
  apiUrl: string
  pipelineUrl: string
  natsUrl: string
  clickhouseUrl: string
  /** Cluster of ClickHouse that has the tables; empty: one node. */
  clickhouseCluster: string
  /** Absent where an earlier version started the stack. */
  isClickHouseEmbedded?: boolean
  databaseUrl: string
}

/**
 * Reads `credentials.json` of the data directory, or writes it on the first start. Only its owner may read it.
 *
 * Chosen keys count on an empty data directory only, as the database already holds the others. The embedded ClickHouse
 * server learns its passwords at each start, so an operator may change those in the file.
 *
 * @throws {MillraceError} `MILLRACE_DATA_DIR_UNUSABLE` when the file lacks one: a login without a password is open.
 */
export async function loadCredentials (dataDir: string, chosen: StackSettings['chosen']): Promise<Credentials> {
  const file = path.join(dataDir, 'credentials.json')
  const stored = await readFile(file, 'utf8').then(
    (text) => readCredentials(file, text),
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
      return undefined
    }
  )
  const credentials = stored ?? {
    projectApiKey: chosen.projectApiKey || mintKey('phc_'),
    personalApiKey: chosen.personalApiKey || mintKey('phx_'),
    postgresPassword: generatePassword(),
    clickhousePassword: generatePassword(),
    analystPassword: generatePassword()
  }
  if (stored === undefined) {
    // On the disk before the stores are created with these passwords: nobody else knows them.
    await writeFile(`${file}.new`, `${JSON.stringify(credentials, null, 2)}\n`, { mode: 0o600, flush: true })
    await rename(`${file}.new`, file)
    await flushFolder(dataDir)
  }
  await chmod(file, 0o600)
  return credentials
}

const FIELDS: readonly (keyof Credentials)[] =
  ['projectApiKey', 'personalApiKey', 'postgresPassword', 'clickhousePassword', 'analystPassword']

function readCredentials (file: string, text: string): Credentials {
  let stored: Credentials | null = null
  try {
    stored = JSON.parse(text)
  } catch {}
  const missing = FIELDS.find((name) => !stored?.[name])
  if (stored !== null && missing === undefined) return stored
  throw new MillraceError('MILLRACE_DATA_DIR_UNUSABLE', `${file} is not JSON or has no ${missing}: correct it`)
}

/**
 * Leaves the addresses in `addresses.json` of the data directory, for tools on this machine. Only the owner may read
 * it, and it is there only while the stack runs (or after it was killed).
 */
export async function writeAddresses (dataDir: string, addresses: StackAddresses): Promise<void> {
  const file = addressesFile(dataDir)
  await writeFile(`${file}.new`, `${JSON.stringify(addresses, null, 2)}\n`, { mode: 0o600 })
  await rename(`${file}.new`, file)
}

/** @throws when no stack was started on the data directory. */
export async function readAddresses (dataDir: string): Promise<StackAddresses> {
  return JSON.parse(await readFile(addressesFile(dataDir), 'utf8')) as StackAddresses
}

export type StackState =
  /** None was ever started on the data directory. */
  | { kind: 'none' }
  | { kind: 'running', addresses: StackAddresses }
  /** `why`: with what to do. */
  | { kind: 'stopped', why: string }
  /** Its first process was killed, and some of the others have not ended yet: nobody starts them again. */
  | { kind: 'killed', why: string, addresses: StackAddresses }

/**
 * Tells whether a stack runs on the data directory. The addresses alone do not say so: a supervisor that was killed
 * leaves them.
 *
 * @throws {MillraceError} `MILLRACE_DATA_DIR_UNUSABLE` when this user may not read it.
 */
export async function readStackState (dataDir: string): Promise<StackState> {
  const folder = path.resolve(dataDir)
  const addresses = await findAddresses(folder)
  if (addresses === undefined) {
    const wasStarted = await access(path.join(folder, 'credentials.json')).then(() => true, () => false)
    return wasStarted
      ? { kind: 'stopped', why: `the stack on the data directory ${folder} is stopped, or not ready yet: start it, or set MILLRACE_DATA_DIR to that of another one` }
      : { kind: 'none' }
  }
  const holder = await readLockHolder(folder)
  if (holder === addresses.pid) return { kind: 'running', addresses }
  if (holder === undefined && await isHeldElsewhere(folder)) {
    return { kind: 'stopped', why: `the stack on the data directory ${folder} runs in another container: run the command there, as "docker exec" does` }
  }
  const killed = `the stack on the data directory ${folder} was killed (its first process, ${addresses.pid}, is gone)`
  if (holder !== undefined) return { kind: 'stopped', why: `${killed} and is starting again, as process ${holder}` }
  const left = await listRecordedProcesses(folder)
  if (left.length === 0) return { kind: 'stopped', why: `${killed}, and nothing of it runs any more: start it` }
  return { kind: 'killed', addresses, why: `${killed}; ${left.join(', ')} ${left.length === 1 ? 'is' : 'are'} still running without a supervisor: run "millrace start", which ends the rest first` }
}

/**
 * Finds the running stack of a data directory, for a command.
 *
 * A stack that is stopped is an error: at the default addresses another one may answer, and a command would show, or
 * change, the wrong one.
 *
 * @returns undefined when no stack was ever started on the data directory.
 * @throws {MillraceError} `MILLRACE_STACK_NOT_RUNNING`, or `MILLRACE_DATA_DIR_UNUSABLE` when this user may not read it.
 */
export async function findRunningStack (dataDir: string): Promise<StackAddresses | undefined> {
  const state = await readStackState(dataDir)
  if (state.kind === 'none') return undefined
  if (state.kind === 'running') return state.addresses
  throw new MillraceError('MILLRACE_STACK_NOT_RUNNING', state.why)
}

async function findAddresses (folder: string): Promise<StackAddresses | undefined> {
  try {
    return await readAddresses(folder)
  } catch (error) {
    const code = errorCode(error)
    if (code === 'EACCES' || code === 'EPERM') throw unreadable(folder, error)
    // Cut off by a power loss or a full disk, it says as little as one that is not there.
    if (code !== 'ENOENT' && code !== 'ENOTDIR' && !(error instanceof SyntaxError)) throw error
    return undefined
  }
}

/** Of a command of another user: the data directory is readable by its owner alone. */
export function unreadable (folder: string, cause: unknown): MillraceError {
  return new MillraceError('MILLRACE_DATA_DIR_UNUSABLE', `the user ${process.getuid?.() ?? ''} may not read the data directory ${folder}: ` +
    'use sudo, or run the command as the user that runs Millrace', { cause })
}

export async function removeAddresses (dataDir: string): Promise<void> {
  await rm(addressesFile(dataDir), { force: true })
}

/** 144 random bits in characters that need no quoting in a URL or a shell. */
function generatePassword (): string {
  return randomBytes(18).toString('base64url')
}

function addressesFile (dataDir: string): string {
  return path.join(dataDir, 'addresses.json')
}
