/** The messages that simulated clients send: encoded once, as the encoding costs more than all that follows. */
import { acceptedBy, encodePayload, TEST_KEY } from '../../pipeline/testing/publish-events.ts'
import { ROW_LAYOUT } from '../../schema/wire/event-row.ts'
import { HEADER } from '../../schema/wire/streams.ts'
import type { PlainEvent } from '../support/event-block.ts'
import { createRandom, pickOne, type Random } from '../support/random.ts'
import { REFUSED_EVENT, WORLD_BEGAN_AT } from './world-constants.ts'

/** A message, and the events of its rows. */
export interface KnownMessage {
  payload: Uint8Array
  headers: Record<string, string>
  /** Identity of each row, as `identityOf` of the stored rows gives it. */
  identities: string[]
  isRefused: boolean[]
}

const COUNT = 160

/** The number of a message, modulo this, says its partition. */
const PARTITIONS = 4

/** Number of those that clients made long before the world began. */
const OLD_AFTER = 140

/**
 * Messages of one to four rows. About one row in eight is an event of an earlier message or of the same one; one in
 * sixty is refused by ClickHouse. Messages of different partitions have no event in common. The last ones have uuids of
 * the day before.
 */
export const KNOWN_MESSAGES: readonly KnownMessage[] = makeMessages()

function makeMessages (): KnownMessage[] {
  const random = createRandom(42)
  const known: PlainEvent[][] = Array.from({ length: PARTITIONS }, () => [])
  return Array.from({ length: COUNT }, (_, number) => {
    const isOld = number >= OLD_AFTER
    const receivedAt = WORLD_BEGAN_AT + number * 500
    const events: PlainEvent[] = []
    for (let row = Math.floor(random() * 4); row >= 0; row--) {
      const again = random() < 0.12 ? pickOne(known[number % PARTITIONS]!, random) : undefined
      const madeAt = isOld ? receivedAt - 86_400_000 + row : receivedAt - 100 + row
      events.push(again ?? {
        project_id: 1,
        uuid: makeUuid(madeAt, random),
        event: random() < 0.016 ? REFUSED_EVENT : 'order paid',
        distinct_id: `user-${Math.floor(random() * 10)}`,
        timestamp: madeAt,
        received_at: receivedAt
      })
    }
    known[number % PARTITIONS]!.push(...events)
    return {
      payload: encodePayload(events),
      headers: {
        [HEADER.layout]: String(ROW_LAYOUT),
        [HEADER.rows]: String(events.length),
        [HEADER.received]: String(receivedAt),
        [HEADER.accepted]: acceptedBy(events),
        [HEADER.fingerprintKey]: TEST_KEY.id,
        [HEADER.oldestUuid]: String(Math.min(...events.map(({ timestamp }) => timestamp)))
      },
      identities: events.map(({ project_id: project, uuid, event, distinct_id: id }) => `${project} ${uuid} ${event} ${id}`),
      isRefused: events.map(({ event }) => event === REFUSED_EVENT)
    }
  })
}

/** A uuid of version 7. */
function makeUuid (madeAt: number, random: Random): string {
  const time = madeAt.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${Math.floor(random() * 2 ** 48).toString(16).padStart(12, '0')}`
}
