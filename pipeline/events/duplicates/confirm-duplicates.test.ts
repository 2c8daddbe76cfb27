import t from 'tap'
import { makeEvents } from '../../testing/publish-events.ts'
import { excludeOwnRows } from './confirm-duplicates.ts'
import { createLookUpEvents, type EventIdentity } from './look-up-events.ts'
import { send, rangeOf, answerInTurn } from './testing/sent-messages.ts'

t.test('tells the rows of a doubtful insert in one pass over its duplicates', async (t) => {
  const { message } = send(makeEvents(1000))
  const even = Array.from({ length: 500 }, (_, i) => [2 * i, 2 * i + 1]).flat()
  let reads = 0
  const counted = <T extends object>(list: T): T => new Proxy(list, {
    get (target, name) {
      reads++
      return Reflect.get(target, name)
    }
  })
  const range = rangeOf([{ message, events: [] }], counted([[message.sequence, counted(even)]]))

  const left = await excludeOwnRows([message], [[message.sequence, [0, 1000]]], {
    doubtful: [{ range, token: 'doubtful' }], lookUpEvents: async (identities) => identities.map(() => true)
  })

  t.same(left, [[message.sequence, even]], 'its duplicates, and nothing that it stored')
  t.ok(reads < 1000 * 12, `${reads} reads of 1000 bounds for 1000 rows`)
})

t.test('an event that a replica lacks is stored when the replica has caught up', async (t) => {
  const event = (uuidHex: string): EventIdentity =>
    ({ projectId: 1, uuidHex: uuidHex.repeat(16), event: Buffer.from('paid'), distinctId: Buffer.from('a'), day: 20_000 })
  const stored = (uuidHex: string): unknown[] => [1, uuidHex.repeat(16), '70616964', '61', 20_000]
  const { clickhouse, asked } = answerInTurn([[stored('01')], [stored('02')], [stored('01')]])
  let waits = 0
  const lookUpEvents = createLookUpEvents(clickhouse, async () => { waits++ })

  t.same(await lookUpEvents([event('01'), event('02'), event('03')]), [true, true, false])
  t.same([asked(), waits], [2, 1])
  t.same(await lookUpEvents([event('01')]), [true], 'found events are stored, whichever replica lacks them')
  t.same([asked(), waits], [3, 1])
})
