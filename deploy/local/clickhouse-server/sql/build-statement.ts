import { quoteString } from './quote-sql.ts'
import { type Statement } from './read-statement.ts'

/**
 * A SELECT whose rows go into a file of the server's own. APPEND, because the engine would write anything else to a
 * temporary name first, which is no pipe.
 */
export function buildSelectInto (statement: Statement, format: string, path: string): string {
  const { sql } = statement
  const into = `\nINTO OUTFILE ${quoteString(path)} APPEND FORMAT ${format}\n`
  if (statement.format === undefined) return sql + into
  return sql.slice(0, statement.format.start) + into + sql.slice(statement.format.end)
}

/** The compressions the engine can undo while it reads a file, by the name HTTP has for them. */
export const ENGINE_COMPRESSIONS: Readonly<Record<string, string>> = {
  gzip: 'gzip', 'x-gzip': 'gzip', deflate: 'deflate', br: 'br', zstd: 'zstd', xz: 'xz', lz4: 'lz4', snappy: 'snappy'
}

export interface InsertParts {
  /** `INSERT INTO t [(columns)]`, as the client wrote it. */
  head: string
  /** The client's SETTINGS clause, which the grammar wants between file and format. */
  settings: string
  format: string
}

/**
 * An INSERT whose rows are in a file of the server's own.
 *
 * @param compression  The engine's name of the compression of the file, or `none`.
 */
export function buildInsertFrom (insert: InsertParts, path: string, compression: string): string {
  const { head, settings, format } = insert
  return `${head}\nFROM INFILE ${quoteString(path)} COMPRESSION ${quoteString(compression)}\n${settings}\nFORMAT ${format}`
}
