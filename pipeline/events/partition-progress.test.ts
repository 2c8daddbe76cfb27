import t from 'tap'
import type { PartitionLease } from '../stream/partition-lease.ts'
import { type BatchRange, newPartitionRecord, type PartitionRecord } from '../stream/partition-records.ts'
import { chooseBatch, type SearchLimits } from './batch-range.ts'
import type { EventsReader, PartitionMessage } from './events-reader.ts'
import { PartitionProgress } from './partition-progress.ts'

/** What happened to the record and to the stream, in order. */
type Log = string[]

function createProgress (
  record: Partial<PartitionRecord>, buffer: PartitionMessage[] = []
): { progress: PartitionProgress, log: Log } {
  const log: Log = []
  const lease = {
    record: { ...newPartitionRecord('life'), ...record },
    async write (next: PartitionRecord) {
      log.push(`record ${next.stream} done ${next.done}+${next.doneRows}`)
      lease.record = next
    }
  }
  const reader = {
    buffer,
    take: (count: number) => buffer.splice(0, count),
    acknowledge: (messages: PartitionMessage[]) => {
      log.push(`acknowledge ${messages.map(({ sequence }) => sequence).join()}`)
    }
  }
  const progress = new PartitionProgress(lease as unknown as PartitionLease, reader as unknown as EventsReader)
  return { progress, log }
}

function message (sequence: number, storedAt = sequence * 1000): PartitionMessage {
  return { sequence, storedAt, rows: 10 } as PartitionMessage
}

function rangeOf (last: number, rows?: [number, number]): BatchRange {
  const range = { first: last, last, messages: 1, layout: 1, settings: 1, receivedBy: [], deduplicated: [] }
  return { ...range, ...(rows && { rows }) }
}

t.test('lets the stream forget a message only after its record says that it is acknowledged', async (t) => {
  const { progress, log } = createProgress({})

  progress.acknowledge([message(1), message(2)], rangeOf(2))
  t.same(log, [])
  await progress.write()
  await progress.write()

  t.same(log, ['record life done 2+0', 'acknowledge 1,2'])
})

t.test('goes on with the rest of a message of which a piece is acknowledged', async (t) => {
  const { progress, log } = createProgress({})

  t.match(progress.acknowledge([message(1)], rangeOf(1, [0, 4])), { sequence: 1 })
  t.equal(progress.doneRows, 4)
  await progress.write()
  t.equal(progress.acknowledge([message(1)], rangeOf(1, [4, 10])), null)
  await progress.write()

  t.same(log, ['record life done 0+4', 'acknowledge ', 'record life done 1+0', 'acknowledge 1'])
})

t.test('acknowledges again what an earlier session recorded as stored, and takes nothing else', async (t) => {
  const buffer = [message(4), message(5), message(6)]
  const { progress, log } = createProgress({ done: 5, doneAt: 5000 }, buffer)

  t.equal(progress.skipStored(), null)

  t.same(log, ['acknowledge 4,5'])
  t.same(buffer.map(({ sequence }) => sequence), [6])
})

t.test('keeps a message with the number of an acknowledged one when the stream counts again, under another token', async (t) => {
  const buffer = [message(4), message(5, 9000), message(6, 9001)]
  const { progress, log } = createProgress({ done: 6, doneAt: 6000 }, buffer)

  t.equal(progress.skipStored(), 5)
  await progress.write()

  t.equal(progress.stream, 'life~1')
  t.same(buffer.map(({ sequence }) => sequence), [5, 6])
  t.same(log, ['acknowledge 4', 'record life~1 done 4+0', 'acknowledge '])
})

const LIMITS = { maxRows: 100, maxBytes: 1000, maxAgeMs: 500 }
const UNLIMITED: SearchLimits = { messages: Infinity, rows: Infinity }

function sizedMessage (rows: number, bytes = 10, layout = 1): PartitionMessage {
  return { rows, layout, frame: new Uint8Array(bytes), headers: {} } as PartitionMessage
}

t.test('takes what fits into rows and bytes, and waits for more when there is room', async (t) => {
  t.same(chooseBatch([], LIMITS, UNLIMITED), { count: 0, full: false })
  t.same(chooseBatch([sizedMessage(10), sizedMessage(20)], LIMITS, UNLIMITED), { count: 2, full: false })
  t.same(chooseBatch([sizedMessage(60), sizedMessage(60)], LIMITS, UNLIMITED), { count: 1, full: true })
  t.same(chooseBatch([sizedMessage(1, 600), sizedMessage(1, 600)], LIMITS, UNLIMITED), { count: 1, full: true })
  t.same(chooseBatch([sizedMessage(100)], LIMITS, UNLIMITED), { count: 1, full: true })
})

t.test('lets a sizedMessage beyond the limits go alone', async (t) => {
  t.same(chooseBatch([sizedMessage(500), sizedMessage(1)], LIMITS, UNLIMITED), { count: 1, full: true })
})

t.test('never mixes layouts, and sends malformed messages one by one', async (t) => {
  t.same(chooseBatch([sizedMessage(1, 10, 1), sizedMessage(1, 10, 2)], LIMITS, UNLIMITED), { count: 1, full: true })
  t.same(chooseBatch([sizedMessage(0, 10, -1), sizedMessage(0, 10, -1)], LIMITS, UNLIMITED), { count: 1, full: true })
  t.same(chooseBatch([sizedMessage(1, 10, 1), sizedMessage(0, 10, -1)], LIMITS, UNLIMITED), { count: 1, full: true })
})

t.test('takes fewer messages while a refused one is searched for', async (t) => {
  const buffer = [sizedMessage(1), sizedMessage(1), sizedMessage(1)]
  t.same(chooseBatch(buffer, LIMITS, { messages: 2, rows: Infinity }), { count: 2, full: true })
})
