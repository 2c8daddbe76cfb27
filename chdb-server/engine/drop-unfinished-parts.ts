import path from 'node:path'
import type { Logger } from '../json-log.ts'
import { quoteIdentifier, quoteString } from '../statement/sql-lexer.ts'
import { isWrittenAfter } from '../insert/remove-unanswered-parts.ts'
import { listFolder, listTables } from './list-folder.ts'
import type { EngineSession } from './engine.ts'

interface Part {
  database: string
  table: string
  partition_id: string
  name: string
  /** Only of those that are detached: `<folder of the table>/detached/<name>`. */
  path?: string
  /** First and last block of its rows. */
  first: number
  last: number
}

/** The columns have these names in both tables; numbers of blocks as numbers, not as text. */
const COLUMNS = 'database, table, partition_id, name, toFloat64(min_block_number) AS first, toFloat64(max_block_number) AS last'

/**
 * Removes parts that the engine detached at its start because they are damaged, and of which no row is missing: results
 * of merges that a full disk cut short (see `failed-writes.ts`), whose rows are all in other parts, and inserts that it
 * cut short, which were not answered. They take room on a disk that has little, and whoever finds a damaged part is to
 * know that rows are missing.
 *
 * What was written after `since` is such a part: nothing that came from it was answered, and the sources of a merge are
 * kept for longer. Where that is not known, as after a kill, all its blocks have to be in other parts. Any other
 * damaged part stays, for an alert and an operator. So does one of an earlier start: the numbers of its blocks may
 * belong to other rows by now.
 *
 * @param options.before  What `listDetached` gave before this start.
 * @param options.since   What `readFailedWrite` gave, epoch milliseconds.
 */
export async function dropUnfinishedParts (
  session: EngineSession, options: { before: ReadonlySet<string>, since: number | null, logger: Logger }
): Promise<void> {
  const { before, since, logger } = options
  const broken = await session.rows<Part>(`SELECT ${COLUMNS}, path FROM system.detached_parts WHERE reason = 'broken-on-start'`)
  for (const part of broken.filter(({ path: folder = '' }) => !before.has(keyOf(folder)))) {
    const active = await session.rows<Part>(`SELECT ${COLUMNS} FROM system.parts WHERE active
      AND database = ${quoteString(part.database)} AND table = ${quoteString(part.table)}
      AND partition_id = ${quoteString(part.partition_id)}
      AND min_block_number >= ${part.first} AND max_block_number <= ${part.last} ORDER BY first`)
    const isUnfinished = since !== null && isWrittenAfter(part.path ?? '', since)
    if (!isUnfinished && !areGapless(part, active)) continue
    await session.run(`ALTER TABLE ${quoteIdentifier(part.database)}.${quoteIdentifier(part.table)}
      DROP DETACHED PART ${quoteString(part.name)} SETTINGS allow_drop_detached = 1`)
    const table = `${part.database}.${part.table}`
    if (part.first === part.last) {
      logger.warn({ table, part: part.name }, 'removed the part of an insert that the disk had no room for; it was not answered')
    } else {
      logger.warn({ table, part: part.name, sources: active.length },
        'removed the result of a merge that the disk had no room for; its rows are in the parts it was made of')
    }
  }
}

/** The parts that earlier starts detached. To be called before the engine opens its folder. */
export function listDetached (engineDir: string): Set<string> {
  const folders = listTables(engineDir).map((table) => path.join(table, 'detached'))
  return new Set(folders.flatMap((folder) => listFolder(folder).map((name) => keyOf(path.join(folder, name)))))
}

/** Id of the table and name of the part: the engine may give another path to the same folder. */
function keyOf (folder: string): string {
  const parts = path.normalize(folder).split(path.sep).filter(Boolean)
  return `${parts.at(-3)}/${parts.at(-1)}`
}

/** Whether parts, in order, hold each block of a larger one. */
function areGapless (whole: Part, parts: readonly Part[]): boolean {
  let next = whole.first
  for (const { first, last } of parts) {
    if (first !== next) return false
    next = last + 1
  }
  return next === whole.last + 1
}
