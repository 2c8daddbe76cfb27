import { copyFile, readdir, stat, truncate } from 'node:fs/promises'
import path from 'node:path'

/** With one older copy of each, the logs of six processes stay below a gigabyte. */
const MAX_LOG_BYTES = 64 * 1024 * 1024
const EVERY_MS = 60_000

/**
 * Keeps the log files of the data directory from growing indefinitely: a large one is copied to `<name>.1` and emptied.
 * The processes append to their files and go on without noticing; lines written in between are lost.
 *
 * @returns ends it.
 */
export function rotateLogs (dataDir: string): () => void {
  const folder = path.join(dataDir, 'logs')
  // A log that cannot be copied, on a full disk for one, is tried again a minute later.
  const timer = setInterval(() => { void rotateLarge(folder).catch(() => {}) }, EVERY_MS)
  timer.unref()
  return () => clearInterval(timer)
}

async function rotateLarge (folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const file = path.join(folder, name)
    if (!name.endsWith('.log') || (await stat(file)).size < MAX_LOG_BYTES) continue
    await copyFile(file, `${file}.1`)
    await truncate(file)
  }
}
