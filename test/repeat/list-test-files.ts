import { readdir } from 'node:fs/promises'

/** Paths of all test files below the root, as `tap` finds them by its `include` in package.json. */
export async function listTestFiles (root: string): Promise<string[]> {
  const files: string[] = []
  const folders = ['']
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const entry of await readdir(`${root}/${folder}`, { withFileTypes: true })) {
      if (entry.isDirectory() && entry.name !== 'node_modules' && !entry.name.startsWith('.')) {
        folders.push(`${folder}${entry.name}/`)
      } else if (entry.name.endsWith('.test.ts')) {
        files.push(`${folder}${entry.name}`)
      }
    }
  }
  return files.sort()
}
