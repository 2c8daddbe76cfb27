import { access, chmod, constants, mkdir } from 'node:fs/promises'
import { homedir } from 'node:os'
import path from 'node:path'

export interface FindCacheDirOptions {
  /** Searched for `XDG_CACHE_HOME` and `HOME`. */
  env: NodeJS.ProcessEnv
  /** Used when there is no writable cache folder; a service user often has no home. */
  dataDir: string
  /** The folder must be readable by the other user that root switches to. */
  shared?: boolean
}

/** Where root keeps what other users must be able to read: its home is closed to them. */
const SYSTEM_CACHE = '/var/cache/millrace'

/** Finds a writable folder for files that can be made again and that several data directories share. */
export async function findCacheDir (options: FindCacheDirOptions): Promise<string> {
  const { env, dataDir, shared = false } = options
  const base = env.XDG_CACHE_HOME || path.join(env.HOME || homedir(), '.cache')
  const candidates = [shared ? SYSTEM_CACHE : path.join(base, 'millrace'), path.resolve(dataDir, 'cache')]
  for (const folder of candidates) {
    const isWritable = await makeFolder(folder, shared).then(() => true, () => false)
    if (isWritable) return folder
  }
  throw new Error(`no writable folder among ${candidates.join(', ')}`)
}

/**
 * The environment variable by which a Node process keeps its compiled modules. With them a tier needs half the
 * processor time to start (0.20 instead of 0.37 s measured) and 10 to 20 MB less memory, because the TypeScript
 * stripper is not loaded.
 *
 * A variable of the operator's own is left as it is.
 */
export async function findCompileCache (env: NodeJS.ProcessEnv, dataDir: string): Promise<NodeJS.ProcessEnv> {
  if (env.NODE_COMPILE_CACHE) return { NODE_COMPILE_CACHE: env.NODE_COMPILE_CACHE }
  return { NODE_COMPILE_CACHE: path.join(await findCacheDir({ env, dataDir }), 'compiled') }
}

async function makeFolder (folder: string, shared: boolean): Promise<void> {
  const created = await mkdir(folder, { recursive: true })
  // Whatever the umask is.
  if (created !== undefined && shared) await chmod(folder, 0o755)
  await access(folder, constants.W_OK)
}
