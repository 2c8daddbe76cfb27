/** Finds the files of an export. */
import { readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { MillraceError } from '../../engines/errors.ts'

export interface SourceFile {
  path: string
  /** Below the folder that was named: the same wherever the export lies. */
  name: string
  bytes: number
}

/** Names of files that may have events; one without an ending may be a part that a database wrote. */
const KNOWN_NAME = /^[^.]+$|\.(?:jsonl?|ndjson|[ct]sv|txt|log|parquet|zip|gz|zst|br)$/i

/**
 * Lists the files of an export: those that are named, and all of the folders that are named, in the order of their
 * names. Hidden ones are left out. A file that links give several paths is listed once: by its own if that is there.
 *
 * @param onSkipped  Told the name of what a folder has beside files of events.
 * @throws {MillraceError} `MILLRACE_IMPORT_FILE_MISSING`; also when two files have one name.
 */
export async function listFiles (
  given: readonly string[], onSkipped: (name: string) => void = () => {}
): Promise<SourceFile[]> {
  const files: SourceFile[] = []
  const seen = new Set<string>()
  const paths = given.map((file) => ({ file, name: path.basename(file), root: '' }))
  const links: typeof paths = []
  for (let next = paths.shift(); next !== undefined; next = paths.shift() ?? links.shift()) {
    const { file, name, root } = next
    const found = await stat(file).catch((cause: unknown) => {
      if (root !== '') return undefined
      throw new MillraceError('MILLRACE_IMPORT_FILE_MISSING', `no such file or folder: ${file}`, { cause })
    })
    const identity = found === undefined ? file : `${found.dev}:${found.ino}`
    if (seen.has(identity)) continue
    seen.add(identity)
    if (found?.isDirectory()) {
      const folder = root === '' ? file : root
      for (const entry of (await readdir(file, { withFileTypes: true })).sort((a, b) => a.name < b.name ? -1 : 1)) {
        const inner = path.join(file, entry.name)
        if (entry.name.startsWith('.')) continue
        (entry.isSymbolicLink() ? links : paths).push({ file: inner, name: path.relative(folder, inner), root: folder })
      }
    } else if (found?.isFile() === true && (root === '' || KNOWN_NAME.test(path.basename(file)))) {
      files.push({ path: file, name, bytes: found.size })
    } else if (root === '') {
      throw new MillraceError('MILLRACE_IMPORT_FILE_MISSING', `${file} is not a regular file; save it first`)
    } else {
      onSkipped(name)
    }
  }
  if (files.length === 0) throw new MillraceError('MILLRACE_IMPORT_FILE_MISSING', `no files in ${given.join(', ')}`)
  files.sort((a, b) => a.name < b.name ? -1 : 1)
  const same = files.find(({ name }, at) => name === files[at + 1]?.name)
  // What has no id of its own is known by the name of its file and its row.
  if (same !== undefined) {
    throw new MillraceError('MILLRACE_IMPORT_FILE_MISSING', `two files are called ${same.name}: give the folder that has both`)
  }
  return files
}
