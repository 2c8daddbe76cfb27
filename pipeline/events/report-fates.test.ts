import t from 'tap'
import { FINGERPRINT_BYTES } from '../../schema/wire/frame-message.ts'
import type { PartitionMessage } from './events-reader.ts'
import { splitFingerprints } from './report-fates.ts'

/** A message whose fingerprints are its sequence and the number of the row. */
function message (sequence: number, rows: number): PartitionMessage {
  const payload = Buffer.alloc(rows * FINGERPRINT_BYTES + 5)
  for (let row = 0; row < rows; row++) {
    payload.fill(sequence * 10 + row, row * FINGERPRINT_BYTES, (row + 1) * FINGERPRINT_BYTES)
  }
  return { sequence, rows, payload } as unknown as PartitionMessage
}

function rowsOf (fingerprints: Uint8Array): number[] {
  const rows = fingerprints.length / FINGERPRINT_BYTES
  return Array.from({ length: rows }, (_, row) => fingerprints[row * FINGERPRINT_BYTES]!)
}

t.test('every row of a batch range is stored or a duplicate', (t) => {
  const cases: [Parameters<typeof splitFingerprints>[1], number[], number[]][] = [
    [{ deduplicated: [] }, [10, 11, 12, 13, 20, 21], []],
    [{ deduplicated: [[1, [0, 1, 2, 4]], [2, [0, 2]]] }, [11], [10, 12, 13, 20, 21]],
    [{ deduplicated: [[1, [1, 3]]] }, [10, 13, 20, 21], [11, 12]]
  ]
  for (const [range, stored, duplicates] of cases) {
    const split = splitFingerprints([message(1, 4), message(2, 2)], range)
    t.same([rowsOf(split.stored), rowsOf(split.duplicates)], [stored, duplicates])
  }
  t.end()
})

t.test('of a piece of a message, the rows of the piece', (t) => {
  const split = splitFingerprints([message(1, 6)], { rows: [2, 5], deduplicated: [[1, [0, 3, 4, 6]]] })

  t.same([rowsOf(split.stored), rowsOf(split.duplicates)], [[13], [12, 14]])
  t.end()
})
