import { readFileSync } from 'node:fs'
import path from 'node:path'

/**
 * Reads a query of this folder and puts in the parts that queries share: `{{exposures}}` is the file `exposures.sql`.
 *
 * Parts are text of ours only. What a client says reaches ClickHouse as typed parameters (`{flag:String}`), never as
 * part of the query.
 */
export function loadQuery (name: string): string {
  const text = readFileSync(path.join(import.meta.dirname, `${name}.sql`), 'utf8')
  return text.replaceAll(/\{\{(\w+)\}\}/g, (_, part: string) => loadPart(part))
}

function loadPart (part: string): string {
  // The comment on top describes the file, and would end up in the middle of a line.
  return loadQuery(part.replaceAll('_', '-')).replace(/^(?:--[^\n]*\n)+/, '').trimEnd()
}
