import { readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import type { Readable } from 'node:stream'
import yauzl from 'yauzl'
import { MillraceError } from '../../engines/errors.ts'

export interface SourceFile {
  path: string
  /** Below the folder that was named: the same wherever the export lies. */
  name: string
  bytes: number
  /** Of a zip: the file in it that is read. */
  part?: string
  /** How far it is read; only while it is. */
  bytesRead?: () => number
}

/** A row, or the reason why it could not be read. */
export type ReadRow = { position: number } & ({ row: unknown } | { error: string, text: string })

/** Rows that are there at once, to be read before the next ones: a promise for each costs as much as to parse it. */
export type Rows = IteratorObject<ReadRow>

/** Names of files that may have events; one without an ending may be a part that a database wrote. */
const KNOWN_NAME = /^[^.]+$|\.(?:jsonl?|ndjson|[ct]sv|txt|log|parquet|zip|gz|zst|br)$/i

/** PostHog lists the files of an export that it splits in one of these. */
const MANIFEST = /^(?:.*_)?manifest\.json$/
const isOfEvents = (name: string): boolean => KNOWN_NAME.test(name) && !MANIFEST.test(name)

/**
 * Lists the files of an export: those that are named, and all of the folders that are named, in the order of their
 * names. Hidden ones are left out. A file that links give several paths is listed once: by its own if that is there.
 *
 * @param onSkipped  Called with the name of each entry of a folder that is not an event file.
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
    } else if (found?.isFile() === true && (root === '' ? !MANIFEST.test(name) : isOfEvents(path.basename(file)))) {
      files.push({ path: file, name, bytes: found.size })
      // The reader reports errors in a zip.
      if (/\.zip$/i.test(file)) await Array.fromAsync(listZip(file, (entry) => { onSkipped(`${name}/${entry}`) })).catch(() => [])
    } else if (root === '' && found?.isFile() !== true) {
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
    throw new MillraceError('MILLRACE_IMPORT_FILE_MISSING', `two files are named ${same.name}: pass the folder that contains both`)
  }
  return files
}

/** The files in a zip, as `listFiles` has those of a folder. @throws {Error} when it is no zip, or not all of one. */
export async function * listZip (
  file: string, onSkipped: (name: string) => void = () => {}
): AsyncGenerator<{ name: string, offset: number, open: () => Promise<Readable> }> {
  // Names such as `../a.json` are harmless, as no file is written: by default they end the list.
  const zip = await yauzl.openPromise(file, { decodeStrings: false })
  try {
    for await (const entry of zip.eachEntry()) {
      const name = yauzl.getFileNameLowLevel(entry.generalPurposeBitFlag, entry.fileNameRaw, entry.extraFields, false)
      if (name.endsWith('/') || /(?:^|\/)(?:\.[^./]|__MACOSX\/)/.test(name)) continue
      if (!isOfEvents(path.posix.basename(name))) onSkipped(name)
      else yield { name, offset: entry.relativeOffsetOfLocalHeader, open: () => zip.openReadStreamPromise(entry) }
    }
  } finally {
    zip.close()
  }
}
