import t from 'tap'
import { AcceptedCounter, ledgerKey, minuteOfReceipt, readAccepted } from '../../schema/wire/ledger.ts'
import { frameOf } from '../../schema/wire/frame-message.ts'
import { HEADER } from '../../schema/wire/streams.ts'
import type { PlainEvent } from '../../test/support/event-block.ts'
import { createRandom } from '../../test/support/random.ts'
import { encodePayload, makeEvent } from '../testing/publish-events.ts'
import type { PartitionMessage } from '../events/events-reader.ts'
import { countBatch } from './count-batch.ts'

/** Start of a minute, so that events of a message fall into this one and the next. */
const MINUTE = 29_400_000

function messageOf (
  sequence: number, events: readonly PlainEvent[], headers: Record<string, string> = {}
): PartitionMessage {
  const payload = encodePayload(events)
  return {
    sequence, rows: events.length, layout: 1, payload, frame: frameOf(payload, events.length),
    headers: { [HEADER.accepted]: headerOf(events), ...headers }
  } as unknown as PartitionMessage
}

function headerOf (events: readonly PlainEvent[]): string {
  const counter = new AcceptedCounter()
  for (const event of events) counter.add(event.project_id, event.received_at!)
  return counter.take()
}

function received (projectId: number, minute: number): PlainEvent {
  return makeEvent({ project_id: projectId, received_at: (MINUTE + minute) * 60_000 + 59_999 })
}

t.test('the header tells the events of a message by project and minute, however they are mixed', async (t) => {
  const events = [received(1, 0), received(1, 0), received(2, 0), received(1, 0), received(1, 1)]

  t.equal(headerOf(events), `1:${MINUTE}:3,2:${MINUTE}:1,1:${MINUTE + 1}:1`)
  t.same(readAccepted(headerOf(events))?.map(({ events }) => events), [3, 1, 1])
  t.same([readAccepted(undefined), readAccepted(''), readAccepted('1:2'), readAccepted('1:2:x')], [null, null, null, null])
})

t.test('counts what a plain count of the rows counts: whole, in pieces, with duplicates, dead-lettered, without a header', async (t) => {
  const random = createRandom(20)
  const below = (bound: number): number => Math.floor(random() * bound)
  for (let round = 0; round < 60; round++) {
    const events = Array.from({ length: 1 + below(12) }, () => received(1 + below(3), below(2)))
    const repeated = events.map(() => below(3) === 0)
    const from = below(events.length)
    const rows: [number, number] | undefined = below(2) === 0
      ? [from, from + 1 + below(events.length - from)]
      : undefined
    const isDeadLettered = below(4) === 0
    const headers: Record<string, string> = {}
    if (below(4) === 0) headers[HEADER.accepted] = below(2) === 0 ? '' : `1:${MINUTE}:999`
    if (below(4) === 0) headers[HEADER.replayed] = '1'

    const counted = await countBatch([messageOf(7, events, headers)], {
      ...(rows && { rows }), deduplicated: [[7, repeated.flatMap((is, row) => is ? [row, row + 1] : [])]]
    }, { isDeadLettered })

    const plain = new Map<string, { accepted: number, replayed: number, duplicates: number, deadLettered: number }>()
    for (let row = rows?.[0] ?? 0; row < (rows?.[1] ?? events.length); row++) {
      const key = ledgerKey(events[row]!.project_id, minuteOfReceipt(events[row]!.received_at!))
      const count = plain.get(key) ?? { accepted: 0, replayed: 0, duplicates: 0, deadLettered: 0 }
      plain.set(key, count)
      count[headers[HEADER.replayed] === undefined ? 'accepted' : 'replayed']++
      if (repeated[row]) count.duplicates++
      else if (isDeadLettered) count.deadLettered++
    }
    t.same(Object.fromEntries(counted), Object.fromEntries(plain), `round ${round}`)
  }
})

t.test('a broken message is in the books by its header, one without headers not at all', async (t) => {
  const broken = { ...messageOf(1, [received(1, 0), received(2, 0)]), frame: new Uint8Array(30) }
  const unknown = { ...broken, rows: 0, layout: -1, headers: {} }

  t.same(Object.fromEntries(await countBatch([broken], { deduplicated: [] }, { isDeadLettered: true })), {
    [ledgerKey(1, MINUTE)]: { accepted: 1, replayed: 0, duplicates: 0, deadLettered: 1 },
    [ledgerKey(2, MINUTE)]: { accepted: 1, replayed: 0, duplicates: 0, deadLettered: 1 }
  })
  t.equal((await countBatch([unknown], { deduplicated: [] }, { isDeadLettered: true })).size, 0)
})
