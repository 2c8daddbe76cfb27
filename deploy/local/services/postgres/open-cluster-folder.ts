import { closeSync, constants, openSync } from 'node:fs'
import { mkdir, realpath, stat } from 'node:fs/promises'
import path from 'node:path'
import { canEnter } from './find-postgres.ts'
import { isRoot, POSTGRES_UID } from './postgres-account.ts'
import { ServiceStartError } from '../../processes/wait-until-ready.ts'

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

/** A cluster that exists is run by its owner, who may be the user that started Millrace before root did. */
async function readOwner (cluster: string): Promise<number> {
  const uid = await stat(cluster).then((info) => info.uid, () => 0)
  return uid === 0 ? POSTGRES_UID : uid
}
