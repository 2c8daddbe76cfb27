import { open, readdir } from 'node:fs/promises'
import path from 'node:path'

/**
 * Flushes the entries of a folder to the disk: a file that was flushed itself can still be without a name after a power
 * loss. Does nothing on Windows, which has no such thing.
 */
export async function flushFolder (folder: string): Promise<void> {
  if (process.platform === 'win32') return
  await flush(folder)
}

/** Flushes a folder with everything in it, at any depth. What vanishes meanwhile is left out. */
export async function flushTree (folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const child = path.join(folder, entry.name)
    if (entry.isDirectory()) await flushTree(child)
    else if (entry.isFile()) await flush(child)
  }
  await flushFolder(folder)
}

async function flush (file: string): Promise<void> {
  try {
    await using handle = await open(file, 'r')
    await handle.sync()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}
