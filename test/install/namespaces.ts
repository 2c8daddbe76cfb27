import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import path from 'node:path'

/** The argument of a check that has begun again in its namespaces; the path of its folder follows it. */
export const INSIDE = '--inside'

interface Namespaces {
  /** The file of the check, which is run again inside with `INSIDE` and the folder. */
  file: string
  /** Where the folder is made. Overlays are mounted in it, so it must not lie on one. */
  under: string
  /** With a network of its own, too, in which nothing listens yet. */
  hasNetwork?: boolean
}

/**
 * Runs a check again as root in namespaces of its own: what it mounts and starts is seen by it alone and ends with it.
 *
 * @returns the exit code of the check; 1 without root or Linux, after a sentence that says so
 */
export function enterNamespaces ({ file, under, hasNetwork = false }: Namespaces): number {
  if (process.getuid?.() !== 0 || process.platform !== 'linux') {
    process.stderr.write('needs root on Linux: it works as root would, in namespaces of its own\n')
    return 1
  }
  const folder = mkdtempSync(path.join(under, 'millrace-check-'))
  // The users of the services and of the shell reach their own files in it.
  chmodSync(folder, 0o755)
  try {
    const namespaces = ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc', '--propagation', 'private']
    if (hasNetwork) namespaces.push('--net')
    const inside = [process.execPath, ...process.execArgv, file, INSIDE, folder]
    return spawnSync('unshare', [...namespaces, ...inside], { stdio: 'inherit' }).status ?? 1
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
