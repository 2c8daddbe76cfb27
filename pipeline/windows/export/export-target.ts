/** Where exports are written: a folder, or storage that speaks S3. */
import { link, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { errorCode } from '../../../engines/errors.ts'
import { flushFolder, makeFolder } from '../../../platform/durable-folder.ts'

/** Files by name, such as `1/warehouse-3f9a2c41/events/date=2026-11-29/hour=07/r0.parquet`: each is written once. */
export interface ExportTarget {
  /** Folder on this machine for files on their way. */
  scratch: string
  /**
   * Gives a file of the scratch folder a name in the target, or leaves the file that has the name already.
   *
   * @returns whether it is the new one.
   */
  create: (name: string, file: string, sha256: string, signal: AbortSignal) => Promise<boolean>
  /** Null: there is no file of this name. */
  read: (name: string, signal: AbortSignal) => Promise<Readable | null>
  /** Names of the manifests below a folder, from there on: `date=2026-11-29/hour=07/r0.manifest.json`. */
  listManifests: (folder: string, signal: AbortSignal) => AsyncIterable<string>
  /** Removes a file if it is there. */
  remove: (name: string, signal: AbortSignal) => Promise<void>
}

/** Of a window, below the folder of its table. */
const MANIFEST = /^date=[\d-]+\/(?:hour=\d\d\/)?r\d+\.manifest\.json$/

/** A file of the scratch folder that is older was left by a process that died, in milliseconds. */
const STALE_MS = 86_400_000

/** Removes files of processes that died. @throws when the folder above is missing: a disk may not be mounted. */
export async function clearScratch (folder: string): Promise<void> {
  await mkdir(folder).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') throw new Error(`the folder ${path.dirname(folder)} does not exist: mount its disk, or create it`, { cause: error })
    if (errorCode(error) !== 'EEXIST') throw error
  })
  for (const name of await readdir(folder)) {
    const file = path.join(folder, name)
    const found = await ifThere(stat(file))
    if (found !== null && Date.now() - found.mtimeMs > STALE_MS) await rm(file, { force: true })
  }
}

/** More than any manifest and answer of S3 has, in bytes. */
const MAX_TEXT = 16_777_216

/** Content of a target as text. @throws when it is too long: a target may be anybody's server, and send without end. */
export async function textOf (content: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of content) {
    chunks.push(chunk)
    length += chunk.length
    if (length > MAX_TEXT) throw new Error(`the target sent more than ${MAX_TEXT} bytes of text`)
  }
  return Buffer.concat(chunks).toString()
}

/** File systems without hard links answer a link with one of these. */
const NO_LINKS = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'])

export function openFolderTarget (root: string): ExportTarget {
  const pathOf = (name: string): string => path.join(root, ...name.split('/'))

  return {
    scratch: path.join(root, '.scratch'),
    async create (name, file, _, signal) {
      const target = pathOf(name)
      await makeDurableFolder(root, path.dirname(name))
      signal.throwIfAborted()
      try {
        // Unlike a rename it never replaces a file.
        await link(file, target)
      } catch (error) {
        if (errorCode(error) === 'EEXIST') return false
        if (!NO_LINKS.has(errorCode(error) ?? '')) throw error
        if (await stat(target).then(() => true, () => false)) return false
        await rename(file, target)
      }
      await flushFolder(path.dirname(target))
      return true
    },
    async read (name) {
      const handle = await ifThere(open(pathOf(name)))
      return handle?.createReadStream() ?? null
    },
    async * listManifests (folder) {
      const found = await ifThere(readdir(pathOf(folder), { recursive: true })) ?? []
      yield * found.map((name) => name.split(path.sep).join('/')).filter((name) => MANIFEST.test(name))
    },
    async remove (name, signal) {
      signal.throwIfAborted()
      await rm(pathOf(name), { force: true })
    }
  }
}

/** Null: there is no such file or folder. */
async function ifThere<T> (found: Promise<T>): Promise<T | null> {
  return await found.catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return null
    throw error
  })
}

/** Makes folders below `root`, each with its name flushed. */
async function makeDurableFolder (root: string, relative: string): Promise<void> {
  let folder = root
  for (const part of relative.split('/')) {
    const parent = folder
    folder = path.join(folder, part)
    if (await makeFolder(folder)) await flushFolder(parent)
  }
}
