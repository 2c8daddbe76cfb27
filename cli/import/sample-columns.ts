import { fieldsOf } from '../../engines/fields.ts'
import type { SourceFile } from './list-files.ts'
import { readRows } from './read-rows.ts'

const SAMPLED_ROWS = 1000

/** Columns of the first rows: an object of JSON need not have all. */
export async function sampleColumns (file: SourceFile): Promise<string[]> {
  const columns = new Set<string>()
  try {
    for await (const rows of readRows(file)) {
      for (const read of rows) {
        if ('row' in read) for (const column of Object.keys(fieldsOf(read.row))) columns.add(column)
        if (read.position >= SAMPLED_ROWS) return [...columns]
      }
    }
  } catch {
    // It is told by who reads all rows.
  }
  return [...columns]
}
