/** The identity of a spool folder, and whether NATS has an entry of it. */
import { randomBytes } from 'node:crypto'
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { errorCode } from '../../engines/errors.ts'
import { flushFolder } from '../../platform/durable-folder.ts'

/**
 * Whether the watermark waits for the events of a folder:
 *
 * ```
 *   unregistered ---> registered ---> retiring ---> unregistered
 *                 1               2             3
 * ```
 *
 * 1. after NATS has stored the entry of the folder, 2. before the entry is removed, 3. after that. A process killed in
 * between leaves an entry too many, which the next process of the folder or of the machine finds and removes.
 */
export type SpoolRegistration = 'unregistered' | 'registered' | 'retiring'

const ID_FILE = 'id'
const STATE_FILE = 'registration'

/** The id of a folder, for as long as the folder exists. Only the process that has its lock may ask. */
export async function spoolFolderId (folder: string): Promise<string> {
  const known = await readIfThere(path.join(folder, ID_FILE))
  if (/^[0-9a-f]{16}$/.test(known)) return known
  const id = randomBytes(8).toString('hex')
  await writeDurably(folder, ID_FILE, id)
  return id
}

export async function readRegistration (folder: string): Promise<SpoolRegistration> {
  const state = await readIfThere(path.join(folder, STATE_FILE))
  return state === 'registered' || state === 'retiring' ? state : 'unregistered'
}

/** Resolves when a power failure cannot undo it. */
export async function writeRegistration (folder: string, state: SpoolRegistration): Promise<void> {
  if (state !== 'unregistered') return await writeDurably(folder, STATE_FILE, state)
  await rm(path.join(folder, STATE_FILE), { force: true })
  await flushFolder(folder)
}

async function readIfThere (file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).trim()
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return ''
    throw error
  }
}

/** Whole or not at all. */
async function writeDurably (folder: string, name: string, text: string): Promise<void> {
  const unfinished = path.join(folder, `${name}.new`)
  await writeFile(unfinished, text, { flush: true })
  await rename(unfinished, path.join(folder, name))
  await flushFolder(folder)
}
