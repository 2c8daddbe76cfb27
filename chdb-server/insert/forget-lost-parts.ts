import { readdir, readFile, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Logger } from '../json-log.ts'
import type { EngineSession } from '../engine/engine.ts'
import { quoteIdentifier, quoteString } from '../statement/sql-lexer.ts'

interface Table {
  database: string
  name: string
  /** Absolute path of its files. */
  folder: string
}

/** The blocks of one partition that a part holds; merged parts hold many. */
interface PartRange {
  partition: string
  first: number
  last: number
}

/** A line of a log of tokens: `operation, part, token`, parted by tabs; 1 adds a token, 2 drops it. */
const ADDED = '1'
/** A line that was written to its end. */
const LINE = /^[12]\t[^\t\n\0]+\t[^\t\n\0]+\n$/
const PART_NAME = /^(.+)_(\d+)_(\d+)_\d+(?:_\d+)?$/

/**
 * Makes tables forget the tokens of inserts whose part is not there, so that the repeated insert is stored.
 *
 * The engine of 26.7 appends the token of an insert to the log of its table first and gives the part its name after
 * that (seen with strace; 0.1 to 0.4 ms lie between). Killed in between, it would take the repetition for one it has
 * stored, and the batch would be lost. A part that was merged into another is there: its blocks are looked for.
 *
 * A power failure can leave half a line or zeros at the end of a log. The engine passes over them, but appends the next
 * token to the same line, which it cannot read at the start after that: they are removed. Their parts have no name yet
 * (see `flush-tokens.ts`).
 *
 * Run it before anything is inserted. A table is detached while its log is written again.
 *
 * @param options.scratchPath  A file that may be overwritten, on the same disk as the tables.
 */
export async function forgetLostParts (
  session: EngineSession, options: { scratchPath: string, logger: Logger }
): Promise<void> {
  const tables = await session.rows<Table>(`SELECT database, name, data_paths[1] AS folder FROM system.tables
    WHERE engine LIKE '%MergeTree' AND database NOT IN ('system', 'chdb_server')`)
  for (const table of tables) {
    const logs = await readLogs(path.join(table.folder, 'deduplication_logs'))
    if (logs.size === 0) continue
    const isWhole = (line: string): boolean => LINE.test(line)
    const torn = [...logs.values()].flat().filter((line) => !isWhole(line)).length
    const lost = findLost([...logs.values()].flat().filter(isWhole), await listParts(session, table))
    if (lost.size === 0 && torn === 0) continue
    const name = `${quoteIdentifier(table.database)}.${quoteIdentifier(table.name)}`
    await session.run(`DETACH TABLE ${name} SYNC`)
    try {
      for (const [file, lines] of logs) {
        const kept = lines.filter((line) => isWhole(line) && !lost.has(tokenOf(line)))
        if (kept.length === lines.length) continue
        await writeFile(options.scratchPath, kept.join(''), { flush: true, encoding: 'latin1' })
        await rename(options.scratchPath, file)
      }
    } finally {
      await session.run(`ATTACH TABLE ${name}`)
    }
    options.logger.warn({ table: `${table.database}.${table.name}`, tokens: lost.size, tornLines: torn },
      'removed deduplication tokens whose parts a crash lost, so that a retried insert is stored')
  }
}

/** The tokens that were added and not dropped since, and whose blocks are in no part. */
function findLost (lines: readonly string[], parts: readonly PartRange[]): Set<string> {
  const added = new Map<string, string>()
  for (const line of lines) {
    const [operation, part = ''] = line.split('\t')
    if (operation === ADDED) added.set(tokenOf(line), part)
    else added.delete(tokenOf(line))
  }
  // A log has up to 100,000 lines, a table thousands of parts, a partition some dozens.
  const partsOf = Map.groupBy(parts, ({ partition }) => partition)
  const isThere = (name: string): boolean => {
    const [, partition, first, last] = PART_NAME.exec(name) ?? []
    // Better keep a token that nobody understands than store a batch twice.
    if (partition === undefined) return true
    return partsOf.get(partition)?.some((part) => part.first <= Number(first) && part.last >= Number(last)) ?? false
  }
  return new Set([...added].filter(([, part]) => !isThere(part)).map(([token]) => token))
}

function tokenOf (line: string): string {
  return line.split('\t')[2]?.trimEnd() ?? ''
}

/** Lines with their ends by file, oldest file first. Empty for a table that recognises no repeated inserts. */
async function readLogs (folder: string): Promise<Map<string, string[]>> {
  const names = await readdir(folder).catch(() => [])
  const byNumber = names.sort((a, b) => Number(/\d+/.exec(a)) - Number(/\d+/.exec(b)))
  const logs = new Map<string, string[]>()
  for (const name of byNumber) {
    const file = path.join(folder, name)
    // Not UTF-8: whatever is in a torn line stays as it is.
    logs.set(file, (await readFile(file, 'latin1')).match(/[^\n]*\n|[^\n]+$/g) ?? [])
  }
  return logs
}

async function listParts (session: EngineSession, { database, name }: Table): Promise<PartRange[]> {
  return await session.rows<PartRange>(`
    SELECT partition_id AS partition, toFloat64(min_block_number) AS first, toFloat64(max_block_number) AS last
    FROM system.parts WHERE database = ${quoteString(database)} AND table = ${quoteString(name)}`)
}
