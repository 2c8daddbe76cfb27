/** The cluster of the embedded Postgres: its folder, its owner when this process is root, its creation. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, openSync } from 'node:fs'
import { chown, lchown, mkdir, readdir, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import path from 'node:path'
import { flushFolder } from '../../platform/durable-folder.ts'
import { ServiceStartError } from '../supervisor/processes/service.ts'
import { canEnter } from './find-postgres.ts'

/** The folder of the embedded Postgres, as this process and as the server see it. */
export interface ClusterFolder {
  /** `<data directory>/postgres`; the cluster itself is `cluster` below. */
  path: string
  /** How the server reaches it; needs `descriptors` to be handed over. */
  serverPath: string
  descriptors: number[]
  /** The user that runs the server; undefined: this one. */
  uid: number | undefined
  close (): void
}

interface CreateClusterOptions {
  bin: string
  folder: ClusterFolder
  password: string
  /** False skips flushing to the disk, and hashes the password in one round instead of 4,096: tests. */
  durable: boolean
}

/**
 * Postgres refuses to run as root, so root hands over to this user number. It has no entry in the list of users and
 * lies in a range that distributions leave alone, hence it shares its files with nobody.
 */
export const POSTGRES_UID = 61_000

/**
 * Opens the folder for a server that may run as another user.
 *
 * Root's data directory often lies where nobody else may enter (`/root/millrace/.millrace`). Then the server gets
 * the folder as an open descriptor and names it by `/proc/self/fd`, which leads there without passing the folders
 * above; no permission of the machine is changed and the data stays in the data directory.
 */
export async function openClusterFolder (dataDir: string): Promise<ClusterFolder> {
  const folder = path.resolve(dataDir, 'postgres')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const uid = isRoot() ? await readOwner(path.join(folder, 'cluster')) : undefined
  if (uid === undefined || await canEnter(path.dirname(folder), uid)) {
    const real = await realpath(folder)
    return { path: real, serverPath: real, descriptors: [], uid, close () {} }
  }

  if (process.platform !== 'linux') {
    throw new ServiceStartError(`Postgres does not run as root, and only root can enter ${dataDir}: ` +
      'choose another MILLRACE_DATA_DIR, or start Millrace as another user')
  }
  const descriptor = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY)
  return {
    path: await realpath(folder),
    // Descriptors handed over are numbered from 3.
    serverPath: '/proc/self/fd/3',
    descriptors: [descriptor],
    uid,
    close () { closeSync(descriptor) }
  }
}

/**
 * Creates the cluster unless it exists. It is made under another name and renamed at the end, so that an interrupted
 * first start starts over.
 *
 * @throws {ServiceStartError} with what `initdb` said.
 */
export async function createCluster (options: CreateClusterOptions): Promise<void> {
  const { folder } = options
  const cluster = path.join(folder.path, 'cluster')
  if (await stat(cluster).then(() => true, () => false)) {
    if (folder.uid !== undefined) await chown(folder.path, folder.uid, folder.uid)
    return
  }

  const unfinished = path.join(folder.path, 'cluster.new')
  const passwordFile = path.join(folder.path, 'password')
  const userFile = path.join(folder.path, 'user')
  // The initdb of a start that was killed may write for a moment longer.
  await rm(unfinished, { recursive: true, force: true, maxRetries: 20 })
  const creator = folder.uid === undefined ? undefined : await readNobodyUid()
  await writeFile(passwordFile, `${options.password}\n`, { mode: 0o600 })
  try {
    if (creator !== undefined) await giveTo(folder.path, creator)
    await runInitdb(options, creator, creator === undefined ? await nameUser(userFile) : {})
  } finally {
    await rm(passwordFile, { force: true })
    await rm(userFile, { force: true })
  }
  if (folder.uid !== undefined) await giveTo(folder.path, folder.uid)
  await rename(unfinished, cluster)
  if (options.durable) await flushFolder(folder.path)
}

/** True when this process has to run Postgres as somebody else. */
export function isRoot (): boolean {
  return process.getuid?.() === 0
}

/**
 * The user that root creates a cluster as. Unlike the server, `initdb` insists on a user with a name; the files are
 * given to `POSTGRES_UID` afterwards.
 */
export async function readNobodyUid (): Promise<number> {
  const users = await readFile('/etc/passwd', 'utf8')
  const uid = Number(users.match(/^nobody:[^:]*:(\d+):/m)?.[1] ?? Number.NaN)
  if (Number.isInteger(uid) && uid !== 0) return uid
  throw new ServiceStartError('Postgres does not run as root, and this machine has no user "nobody" to run Postgres as: ' +
    'start Millrace as another user, or set DATABASE_URL')
}

/** A cluster that exists is run by its owner, who may be the user that started Millrace before root did. */
async function readOwner (cluster: string): Promise<number> {
  const uid = await stat(cluster).then((info) => info.uid, () => 0)
  return uid === 0 ? POSTGRES_UID : uid
}

/**
 * The environment in which this user has the name that `initdb` insists on: in a container it may be any number. Where
 * there is no `libnss_wrapper.so` (the image has it) it changes nothing.
 *
 * @param file  Is written when the user has no name: a list of users with this one.
 */
async function nameUser (file: string): Promise<NodeJS.ProcessEnv> {
  try {
    userInfo()
    return {}
  } catch {
    await writeFile(file, `millrace:x:${process.getuid?.()}:${process.getgid?.()}::/:/bin/sh\n`)
    return { LD_PRELOAD: 'libnss_wrapper.so', NSS_WRAPPER_PASSWD: file, NSS_WRAPPER_GROUP: '/etc/group' }
  }
}

async function runInitdb (
  { bin, folder, durable }: CreateClusterOptions, uid: number | undefined, env: NodeJS.ProcessEnv
): Promise<void> {
  const child = spawn(path.join(bin, 'initdb'), [
    `--pgdata=${folder.serverPath}/cluster.new`,
    `--pwfile=${folder.serverPath}/password`,
    '--username=millrace',
    '--auth=scram-sha-256',
    // Postgres brings this locale itself: sorting does not depend on the machine and never changes with it.
    '--encoding=UTF8', '--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C',
    '--no-instructions',
    ...(durable ? [] : ['--no-sync', '--set=scram_iterations=1'])
  ], {
    // initdb would otherwise ask for the current folder, which the other user may not be allowed to see.
    cwd: '/',
    env: { PATH: process.env.PATH, LC_ALL: 'C', ...env },
    stdio: ['ignore', 'pipe', 'pipe', ...folder.descriptors],
    ...(uid === undefined ? {} : { uid, gid: uid })
  })
  let said = ''
  child.stdout?.on('data', (chunk: Buffer) => { said += chunk.toString() })
  child.stderr?.on('data', (chunk: Buffer) => { said += chunk.toString() })
  const [code] = await once(child, 'close') as [number | null]
  if (code === 0) return
  const hint = said.includes('user does not exist')
    ? '\ninitdb needs a user with a name: add one for this user number to /etc/passwd, or set DATABASE_URL'
    : ''
  throw new ServiceStartError(`Postgres could not create its files in ${folder.path}:\n${said.trim()}${hint}`)
}

async function giveTo (folder: string, uid: number): Promise<void> {
  await chown(folder, uid, uid)
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    await lchown(path.join(entry.parentPath, entry.name), uid, uid)
  }
}
