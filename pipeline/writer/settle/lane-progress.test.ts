import t from 'tap'
import { type LaneHold } from '../../lanes/claim-lane.ts'
import { newLaneRecord, type Cut, type LaneRecord } from '../../lanes/lane-record.ts'
import { type LaneMessage } from '../read/lane-message.ts'
import { type LaneReader } from '../read/lane-reader.ts'
import { LaneProgress } from './lane-progress.ts'

/** What happened to the record and to the stream, in order. */
type Log = string[]

function createProgress (
  record: Partial<LaneRecord>, buffer: LaneMessage[] = []
): { progress: LaneProgress, log: Log } {
  const log: Log = []
  const hold = {
    record: { ...newLaneRecord('life'), ...record },
    async write (next: LaneRecord) {
      log.push(`record ${next.stream} done ${next.done}+${next.doneRows}`)
      hold.record = next
    }
  }
  const reader = {
    buffer,
    take: (count: number) => buffer.splice(0, count),
    acknowledge: (messages: LaneMessage[]) => {
      log.push(`acknowledge ${messages.map(({ sequence }) => sequence).join()}`)
    }
  }
  return { progress: new LaneProgress(hold as unknown as LaneHold, reader as unknown as LaneReader), log }
}

function message (sequence: number, storedAt = sequence * 1000): LaneMessage {
  return { sequence, storedAt, rows: 10 } as LaneMessage
}

function cutOf (last: number, rows?: [number, number]): Cut {
  return { first: last, last, messages: 1, layout: 1, settings: 1, leftOut: [], ...(rows && { rows }) }
}

t.test('lets the stream forget a message only after its record says that it is settled', async (t) => {
  const { progress, log } = createProgress({})

  progress.settle([message(1), message(2)], cutOf(2))
  t.same(log, [])
  await progress.write()
  await progress.write()

  t.same(log, ['record life done 2+0', 'acknowledge 1,2'])
})

t.test('goes on with the rest of a message of which a piece is settled', async (t) => {
  const { progress, log } = createProgress({})

  t.match(progress.settle([message(1)], cutOf(1, [0, 4])), { sequence: 1 })
  t.equal(progress.doneRows, 4)
  await progress.write()
  t.equal(progress.settle([message(1)], cutOf(1, [4, 10])), null)
  await progress.write()

  t.same(log, ['record life done 0+4', 'acknowledge ', 'record life done 1+0', 'acknowledge 1'])
})

t.test('acknowledges what an earlier session settled, and takes nothing else', async (t) => {
  const buffer = [message(4), message(5), message(6)]
  const { progress, log } = createProgress({ done: 5, doneAt: 5000 }, buffer)

  t.equal(progress.skipSettled(), null)

  t.same(log, ['acknowledge 4,5'])
  t.same(buffer.map(({ sequence }) => sequence), [6])
})

t.test('keeps a message with the number of a settled one when the stream counts again, under another token', async (t) => {
  const buffer = [message(4), message(5, 9000), message(6, 9001)]
  const { progress, log } = createProgress({ done: 6, doneAt: 6000 }, buffer)

  t.equal(progress.skipSettled(), 5)
  await progress.write()

  t.equal(progress.stream, 'life~1')
  t.same(buffer.map(({ sequence }) => sequence), [5, 6])
  t.same(log, ['acknowledge 4', 'record life~1 done 4+0', 'acknowledge '])
})
