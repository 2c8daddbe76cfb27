/** A folder as one file, which git keeps as it is: a line of JSON for each entry, compressed. */
import { mkdir, readdir, readFile, readlink, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { constants, zstdCompress, zstdDecompress } from 'node:zlib'

/** One of `base64` and `link`; neither: a folder. */
interface Entry { name: string, base64?: string, link?: string }

/** @param leftOut  Names in the folder. */
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

export async function unpackFolder (file: string, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  const text = (await promisify(zstdDecompress)(await readFile(file))).toString()
  for (const line of text.split('\n').slice(0, -1)) {
    const { name, base64, link } = JSON.parse(line) as Entry
    const full = path.join(folder, name)
    if (link !== undefined) await symlink(link, full)
    else if (base64 === undefined) await mkdir(full, { recursive: true })
    else await writeFile(full, base64, { encoding: 'base64', mode: 0o600 })
  }
}
