import { open } from 'node:fs/promises'

/**
 * Makes created, renamed and removed names of a folder durable: flushing a file does not promise that its name outlasts
 * a power failure.
 */
export async function syncFolder (folder: string): Promise<void> {
  await using handle = await open(folder, 'r')
  await handle.sync()
}
