/**
 * `npm start`: the whole system on one machine. Reads the settings, and becomes the supervisor (`supervisor.ts`): the
 * same process, with nothing in its memory of what the settings are read with, nor of what strips types from sources.
 */
import module from 'node:module'
import path from 'node:path'
import type { Handover } from './stack-settings.ts'

/** `supervisor.ts`, in the package `supervisor.js`. */
const SUPERVISOR = path.join(import.meta.dirname, `supervisor${path.extname(import.meta.filename)}`)

// What the stack stores is for its owner only; every process of it inherits this.
process.umask(0o077)

try {
  const { loadStackSettings } = await import('./stack-settings.ts')
  const { env, ...settings } = loadStackSettings(process.env)
  const compileCache = await keepCompiled(settings.dataDir)
  const handover: Handover = { settings, startedAt: performance.timeOrigin }
  process.execve!(process.execPath, [process.execPath, '--v8-pool-size=1', ...process.execArgv, SUPERVISOR], {
    ...env, ...compileCache, STACK_HANDOVER: JSON.stringify(handover)
  })
} catch (error) {
  const { MillraceError } = await import('../../engines/errors.ts')
  const isGone = (error as NodeJS.ErrnoException).syscall === 'uv_cwd' || (error as Error).message.includes('uv_cwd')
  const text = isGone
    ? 'the folder in which it was started no longer exists: change to one that does'
    : error instanceof MillraceError ? error.message : error instanceof Error ? error.stack : String(error)
  process.stderr.write(`\nMillrace could not start: ${text}\n`)
  process.exit(1)
}

/** Makes sure that the supervisor finds its sources compiled: on a first start it would have to compile them itself. */
async function keepCompiled (dataDir: string): Promise<NodeJS.ProcessEnv> {
  const { findCompileCache } = await import('../data-dir/cache-dir.ts')
  // Without a writable folder, the supervisor reports the problem of the data directory.
  const found = await findCompileCache(process.env, dataDir).catch(() => ({}) as NodeJS.ProcessEnv)
  if (found.NODE_COMPILE_CACHE === undefined) return {}
  module.enableCompileCache(found.NODE_COMPILE_CACHE)
  await import('./supervisor.ts')
  module.flushCompileCache()
  return found
}
