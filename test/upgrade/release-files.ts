/** The files that a release left in the repository: each a folder, packed. */
import { mkdir, readdir, readFile, readlink, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { constants, zstdCompress, zstdDecompress } from 'node:zlib'

/** The releases of which there are files. */
export async function listReleases (): Promise<string[]> {
  return (await readdir(import.meta.dirname)).filter((name) => /^\d+\.\d+\.\d+$/.test(name))
}

/** A file of the release. */
export const fileOf = (version: string, name: string): string => path.join(import.meta.dirname, version, name)

export const [BACKUP, DATA_DIR, ANSWERS] = ['backup.jsonl.zst', 'data-dir.jsonl.zst', 'answers.jsonl'] as const

/** One of `base64` and `link`; neither: a folder. */
interface Entry { name: string, base64?: string, link?: string }

/** A folder as one file: a line of JSON for each entry, compressed. @param leftOut  Names in the folder. */
export async function packFolder (folder: string, file: string, leftOut: readonly string[] = []): Promise<void> {
  const found = await readdir(folder, { recursive: true, withFileTypes: true })
  const lines = await Promise.all(found.map(async (entry): Promise<Entry[]> => {
    const full = path.join(entry.parentPath, entry.name)
    const name = path.relative(folder, full)
    if (leftOut.includes(name.split(path.sep)[0]!)) return []
    if (entry.isSymbolicLink()) return [{ name, link: await readlink(full) }]
    if (entry.isFile()) return [{ name, base64: await readFile(full, 'base64') }]
    return entry.isDirectory() ? [{ name }] : []
  }))
  const text = lines.flat().sort((one, other) => one.name < other.name ? -1 : 1).map((line) => `${JSON.stringify(line)}\n`).join('')
  const options = { params: { [constants.ZSTD_c_compressionLevel]: 19 } }
  await writeFile(file, await promisify(zstdCompress)(text, options))
}

/** Makes a folder again of its file. */
export async function unpackFolder (file: string, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  for (const { name, base64, link } of await readEntries(file)) {
    const full = path.join(folder, name)
    if (link !== undefined) await symlink(link, full)
    else if (base64 === undefined) await mkdir(full, { recursive: true })
    else await writeFile(full, base64, { encoding: 'base64', mode: 0o600 })
  }
}

/** The content of one file of a packed folder. @throws when it is not there. */
export async function readPacked (file: string, name: string): Promise<string> {
  const entry = (await readEntries(file)).find((each) => each.name === name)
  if (entry?.base64 === undefined) throw new Error(`${file} has no file ${name}`)
  return Buffer.from(entry.base64, 'base64').toString()
}

async function readEntries (file: string): Promise<Entry[]> {
  const text = (await promisify(zstdDecompress)(await readFile(file))).toString()
  return text.split('\n').slice(0, -1).map((line) => JSON.parse(line) as Entry)
}
