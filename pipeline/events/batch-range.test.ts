import t from 'tap'
import { chooseBatch, type SearchLimits } from './batch-range.ts'
import type { PartitionMessage } from './events-reader.ts'

const LIMITS = { maxRows: 100, maxBytes: 1000, maxAgeMs: 500 }
const UNLIMITED: SearchLimits = { messages: Infinity, rows: Infinity }

function message (rows: number, bytes = 10, layout = 1): PartitionMessage {
  return { rows, layout, frame: new Uint8Array(bytes), headers: {} } as PartitionMessage
}

t.test('takes what fits into rows and bytes, and waits for more when there is room', async (t) => {
  t.same(chooseBatch([], LIMITS, UNLIMITED), { count: 0, full: false })
  t.same(chooseBatch([message(10), message(20)], LIMITS, UNLIMITED), { count: 2, full: false })
  t.same(chooseBatch([message(60), message(60)], LIMITS, UNLIMITED), { count: 1, full: true })
  t.same(chooseBatch([message(1, 600), message(1, 600)], LIMITS, UNLIMITED), { count: 1, full: true })
  t.same(chooseBatch([message(100)], LIMITS, UNLIMITED), { count: 1, full: true })
})

t.test('lets a message beyond the limits go alone', async (t) => {
  t.same(chooseBatch([message(500), message(1)], LIMITS, UNLIMITED), { count: 1, full: true })
})

t.test('never mixes layouts, and sends malformed messages one by one', async (t) => {
  t.same(chooseBatch([message(1, 10, 1), message(1, 10, 2)], LIMITS, UNLIMITED), { count: 1, full: true })
  t.same(chooseBatch([message(0, 10, -1), message(0, 10, -1)], LIMITS, UNLIMITED), { count: 1, full: true })
  t.same(chooseBatch([message(1, 10, 1), message(0, 10, -1)], LIMITS, UNLIMITED), { count: 1, full: true })
})

t.test('takes fewer messages while a refused one is searched for', async (t) => {
  const buffer = [message(1), message(1), message(1)]
  t.same(chooseBatch(buffer, LIMITS, { messages: 2, rows: Infinity }), { count: 2, full: true })
})
