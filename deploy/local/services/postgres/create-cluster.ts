import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, lchown, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { flushFolder } from '../../../../platform/durable-folder.ts'
import { type ClusterFolder } from './open-cluster-folder.ts'
import { readNobodyUid } from './postgres-account.ts'
import { ServiceStartError } from '../../processes/wait-until-ready.ts'

export interface CreateClusterOptions {
  /** Folder with `initdb`. */
  bin: string
  folder: ClusterFolder
  /** Password of the superuser `millrace`. */
  password: string
  /** False skips flushing to the disk, and hashes the password in one round instead of 4,096: tests. */
  durable: boolean
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
  await rm(unfinished, { recursive: true, force: true })
  const creator = folder.uid === undefined ? undefined : await readNobodyUid()
  await writeFile(passwordFile, `${options.password}\n`, { mode: 0o600 })
  try {
    if (creator !== undefined) await giveTo(folder.path, creator)
    await runInitdb(options, creator)
  } finally {
    await rm(passwordFile, { force: true })
  }
  if (folder.uid !== undefined) await giveTo(folder.path, folder.uid)
  await rename(unfinished, cluster)
  if (options.durable) await flushFolder(folder.path)
}

async function runInitdb ({ bin, folder, durable }: CreateClusterOptions, uid: number | undefined): Promise<void> {
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
    env: { PATH: process.env.PATH, LC_ALL: 'C' },
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
