import { open, readdir } from 'node:fs/promises'
import path from 'node:path'

/**
 * Makes created, renamed and removed names of a folder durable: a file that was flushed itself can still be without its
 * name after a power failure.
 */
export async function flushFolder (folder: string): Promise<void> {
  await using handle = await open(folder, 'r')
  await handle.sync()
}

/** Flushes a folder with everything in it, at any depth. What vanishes meanwhile is passed over. */
export async function flushTree (folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const child = path.join(folder, entry.name)
    if (entry.isDirectory()) await flushTree(child)
    else if (entry.isFile()) await flushIfThere(child)
  }
  await flushIfThere(folder)
}

async function flushIfThere (name: string): Promise<void> {
  try {
    // A file is flushed as a folder is: opened, and synced.
    await flushFolder(name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}
