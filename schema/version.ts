import { readFileSync } from 'node:fs'
import path from 'node:path'

/**
 * Oldest version whose processes may run on the schema of this one: the version before, so that processes are replaced
 * one after the other. Raise it with a migration that takes away what older versions use.
 */
export const OLDEST_COMPATIBLE_VERSION = '0.1.0'

/** Version of this installation, from its package.json: `1.2.3`. */
export function readVersion (): string {
  const manifest = path.join(import.meta.dirname, '..', 'package.json')
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version
}

/** Negative when the first version is older than the second, by major, minor and patch; 0 when they are equal. */
export function compareVersions (one: string, other: string): number {
  const [first, second] = [one, other].map((version) => version.split(/[.+-]/).slice(0, 3).map(Number))
  for (const index of [0, 1, 2]) {
    const difference = (first?.[index] ?? 0) - (second?.[index] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}
