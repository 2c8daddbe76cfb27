import path from 'node:path'
import { findCacheDir } from './find-cache-dir.ts'

/**
 * The environment variable by which a Node process keeps its compiled modules. With them a tier needs half the
 * processor time to start (0.20 instead of 0.37 s measured) and 10 to 20 MB less memory, because the TypeScript
 * stripper is not loaded.
 *
 * A variable of the operator's own is left as it is.
 */
export async function findCompileCache (env: NodeJS.ProcessEnv, dataDir: string): Promise<NodeJS.ProcessEnv> {
  if (env.NODE_COMPILE_CACHE !== undefined) return { NODE_COMPILE_CACHE: env.NODE_COMPILE_CACHE }
  return { NODE_COMPILE_CACHE: path.join(await findCacheDir({ env, dataDir }), 'compiled') }
}
