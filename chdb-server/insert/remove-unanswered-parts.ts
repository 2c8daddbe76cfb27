import { existsSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { listFolder, listTables } from '../engine/list-folder.ts'
import type { Logger } from '../json-log.ts'

/** A part of one insert, which no mutation has changed: `partition_block_block_level`. */
const INSERTED_PART = /^(.+)_(\d+)_\2_\d+$/

/** Folder of a table with the tokens of its inserts: lines of `operation, part, token`, parted by tabs. */
const LOGS = 'deduplication_logs'

/** The times of files are behind the clock by up to a tick of the kernel, in milliseconds. */
const TICK_MS = 20

/**
 * Says to the next start that the process ended itself over a failed write, and since when nothing was answered. Needs
 * no room on the disk: the file is there already (see `forgetFailedWrite`), and its time is what is said.
 *
 * @param since  When the last question began that found all written; epoch milliseconds.
 */
export function rememberFailedWrite (engineDir: string, since: number): void {
  const marker = markerIn(engineDir)
  // Nothing was answered before the end of a first start.
  if (!existsSync(marker)) return
  // That of a start before this one, which has not repaired everything yet.
  const earliest = new Date(Math.min(since, readFailedWrite(engineDir) ?? since))
  utimesSync(marker, earliest, earliest)
}

/** When the last process found all written, if a failed write ended it; null otherwise. Epoch milliseconds. */
export function readFailedWrite (engineDir: string): number | null {
  const mtimeMs = statSync(markerIn(engineDir), { throwIfNoEntry: false })?.mtimeMs ?? 0
  return mtimeMs === 0 ? null : mtimeMs
}

/** To be called when everything is repaired. */
export function forgetFailedWrite (engineDir: string): void {
  const marker = markerIn(engineDir)
  writeFileSync(marker, '')
  utimesSync(marker, 0, 0)
}

/**
 * Removes parts whose token could not be written: their insert was not answered, and would be stored a second time when
 * it is repeated. The engine appends the token to the log of its table first, and goes on when that fails.
 *
 * A part counts only if it was written after the last time at which everything was known to be written. An answered
 * one is older, and has its token besides. To be called before the engine opens its folder.
 *
 * @param since  What `readFailedWrite` gave.
 */
export function removePartsWithoutToken (engineDir: string, since: number, logger: Logger): void {
  for (const table of listTables(engineDir)) {
    const names = listFolder(table)
    // A table without these logs does not recognise repeated inserts.
    if (!names.includes(LOGS)) continue
    const parts = names.filter((name) => INSERTED_PART.test(name) && isWrittenAfter(path.join(table, name), since))
    for (const part of withoutToken(table, parts)) {
      rmSync(path.join(table, part), { recursive: true })
      logger.warn({ folder: table, part },
        'removed a part without the token of its insert, which was not answered: the disk had no room for it')
    }
  }
}

function withoutToken (table: string, parts: readonly string[]): string[] {
  if (parts.length === 0) return []
  const logs = path.join(table, LOGS)
  const lines = listFolder(logs).map((name) => readFileSync(path.join(logs, name), 'latin1')).join('')
  return parts.filter((name) => !lines.includes(`\t${name}\t`))
}

/** Whether a part was made after a moment; epoch milliseconds. Of its files this one is written last, and once. */
export function isWrittenAfter (part: string, since: number): boolean {
  const written = statSync(path.join(part, 'checksums.txt'), { throwIfNoEntry: false })
  return written !== undefined && written.mtimeMs >= since - TICK_MS
}

function markerIn (engineDir: string): string {
  return path.join(engineDir, 'server-failed-write')
}
