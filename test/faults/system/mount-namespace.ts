import { spawn } from 'node:child_process'
import { constants } from 'node:os'

/** Set in the process that runs inside. */
const INSIDE = 'MILLRACE_TEST_MOUNT_NAMESPACE'

/**
 * Runs this program again where its mounts are seen by it and its children only, and vanish with the last of them,
 * whatever ends them. For root on Linux; anybody else cannot mount anyway.
 *
 * @returns the exit code of that run; undefined in it, and where there is no such thing.
 */
export async function enterMountNamespace (): Promise<number | undefined> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0 || process.env[INSIDE] !== undefined) return undefined
  const child = spawn('unshare', [
    '--mount', '--propagation', 'private', process.execPath, ...process.execArgv, ...process.argv.slice(1)
  ], { stdio: 'inherit', env: { ...process.env, [INSIDE]: '1' } })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
  return await new Promise((resolve) => {
    // No unshare here: the disk that cannot be mounted is reported.
    child.once('error', () => resolve(undefined))
    child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal ?? 'SIGKILL']))
  })
}
