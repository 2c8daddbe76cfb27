import { existsSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'

/**
 * Oldest version whose processes may run on the schema of this one: the version before, so that processes are replaced
 * one after the other. Raise it with a migration that takes away what older versions use.
 */
export const OLDEST_COMPATIBLE_VERSION = '0.1.0'

const ROOT = path.join(import.meta.dirname, '..')

/** Version of this installation, from its package.json: `1.2.3`. */
export function readVersion (): string {
  return readManifest().version
}

/** The commit that a package was made of, or that a clone has checked out; undefined where neither is known. */
export const readCommit = (): string | undefined => readManifest().commit ?? readCheckedOut(ROOT)

/** Version and commit, for people. Default: of this installation. */
export function describeVersion (
  { version, commit }: { version: string, commit?: string | undefined } =
  { version: readVersion(), commit: readCommit() }
): string {
  return `${version} (commit ${commit?.slice(0, 12) ?? 'unknown'})`
}

function readManifest (): { version: string, commit?: string } {
  return JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { version: string, commit?: string }
}

/** Reads what git keeps in files, as git itself may not be installed. */
export function readCheckedOut (root: string): string | undefined {
  const read = (...names: string[]): string => readFileSync(path.join(...names), 'utf8').trim()
  try {
    // In a worktree it is a file with the path of the folder, which has the path of the clone's.
    const entry = path.join(root, '.git')
    const isTree = statSync(entry).isFile()
    const folder = isTree ? path.resolve(root, read(entry).replace('gitdir:', '').trim()) : entry
    const common = isTree ? path.resolve(folder, read(folder, 'commondir')) : folder
    const [head, ref] = /^ref: (.+)$/.exec(read(folder, 'HEAD')) ?? [read(folder, 'HEAD')]
    const packed = (): string | undefined =>
      read(common, 'packed-refs').split('\n').find((line) => line.endsWith(` ${ref}`))
    const text = ref === undefined ? head : existsSync(path.join(common, ref)) ? read(common, ref) : packed()
    return /^[0-9a-f]{40,}/.exec(text ?? '')?.[0]
  } catch {
    return undefined
  }
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
