import { readdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'

/** The scripts of the npm package `posthog-js`, as it publishes them, at the version that our tests run. */
export interface SdkFiles {
  /** Version of the package: `1.434.18`. */
  version: string
  /** Whether the package has a script, or source map, of this name that a page may load. */
  has (name: string): boolean
  read (name: string): Promise<Buffer>
  /** The licence of the package, which is served beside the scripts. */
  readLicence (): Promise<Buffer>
}

/** Entry points for bundlers; what a page loads by a `<script>` is every other file. */
const FOR_BUNDLERS = /^(?:main|module|rrweb)\b/

/**
 * Finds the package and lists its scripts.
 *
 * @throws when the package is not installed.
 */
export async function openSdkFiles (): Promise<SdkFiles> {
  const require = createRequire(import.meta.url)
  const manifest = require.resolve('posthog-js/package.json')
  const { version } = require(manifest) as { version: string }
  const folder = path.join(path.dirname(manifest), 'dist')
  // Only names of this list are ever opened: a path of a request cannot leave the folder.
  const names = new Set((await readdir(folder)).filter((name) => /\.js(?:\.map)?$/.test(name) && !FOR_BUNDLERS.test(name)))
  return {
    version,
    has: (name) => names.has(name),
    read: async (name) => await readFile(path.join(folder, name)),
    readLicence: async () => await readFile(path.join(path.dirname(manifest), 'LICENSE'))
  }
}
