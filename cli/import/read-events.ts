/** Reads the events of exported files: each row through the mapper of its source. */
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { type ImportedEvent, type MapRow, RejectedRowError } from '../../engines/import/imported-event.ts'
import type { MapperOf } from './import-options.ts'
import type { ReadRow, SourceFile } from './list-files.ts'
import { readRows, sampleColumns } from './read-rows.ts'
import type { RowMemory } from './row-memory.ts'

/** Stands for the properties of persons that the events of all files tell: they are known at the end. */
export function personsOf (files: readonly SourceFile[]): SourceFile {
  return { path: '', name: `person properties of ${files.reduce((sum, { bytes }) => sum + bytes, 0)} bytes`, bytes: 0 }
}

/**
 * Reads the events of a file one after the other.
 *
 * @param onRow  Called with each row, before its events. Rows that are not events have an error.
 */
export async function readEvents (
  file: SourceFile, { mapperOf, memory }: { mapperOf: MapperOf, memory: RowMemory },
  onEvent: (event: ImportedEvent, position: number) => Promise<void> | undefined,
  onRow: (read: ReadRow) => void = () => {}
): Promise<void> {
  if (file.path === '') {
    let position = 0
    for (const event of memory.listPersons()) {
      const room = onEvent(event, ++position)
      if (room !== undefined) await room
    }
    return
  }
  let map: MapRow | undefined
  let part: string | undefined
  memory.beginFile()
  for await (const rows of readRows(file)) {
    if (file.part !== part) memory.beginFile()
    part = file.part
    for (const read of rows) {
      let reported = read
      let events: readonly ImportedEvent[] = []
      if ('row' in read) {
        map ??= await mapperOf(async () => await sampleColumns(file))
        try {
          events = map(read.row, memory)
        } catch (error) {
          if (!(error instanceof RejectedRowError)) throw error
          reported = { position: read.position, error: error.message, text: stringifyJson(read.row) }
        }
      }
      onRow(reported)
      for (const event of events) {
        const room = onEvent(event, read.position)
        if (room !== undefined) await room
      }
    }
  }
}
