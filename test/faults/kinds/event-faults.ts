import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { jetstream } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import { countDeadLetters } from '../../../platform/dead-letters/count-dead-letters.ts'
import { scanDeadLetters } from '../../../platform/dead-letters/scan-dead-letters.ts'
import { type NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { ROW_LAYOUT } from '../../../schema/event-row.ts'
import { eventsSubject, HEADER } from '../../../schema/streams.ts'
import { waitFor } from '../../support/wait-for.ts'
import { type Fault } from './fault.ts'
import { pickOne } from '../../support/random.ts'
import { REFUSABLE_EVENT } from '../load/sdk-load.ts'
import { type FaultSystem } from '../system/start-fault-system.ts'

/** Travels with the message into its dead letter. */
export const POISON_HEADER = 'Fault-Poison'

/** First bytes of a zstd frame: such a message is broken further inside. */
const ZSTD_MAGIC = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])

const CONSTRAINT = 'fault_constraint'

/** Events that ClickHouse cannot or will not take, among healthy ones. */
export const EVENT_FAULTS: readonly Fault[] = [
  {
    name: 'poisoned-message',
    what: 'messages with broken bytes in the events stream',
    lastsMs: [3000, 500],
    async inject ({ system: { connection }, random, expect }) {
      for (let count = 0; count < 4; count++) {
        const poison = await publishPoison(connection, { lane: count % 2, rows: pickOne([undefined, 1, 20], random) })
        expect(async () => describeLetters(poison, await countPoison(connection, poison)))
        await delay(100)
      }
      return async () => {}
    }
  },
  {
    name: 'refused-rows',
    what: 'ClickHouse refuses one event of many by a constraint; its dead letters are replayed in the end',
    lastsMs: [6000, 1000],
    async inject ({ system }) {
      const before = await countRefused(system)
      await system.command(
        `ALTER TABLE events ADD CONSTRAINT ${CONSTRAINT} CHECK event != '${REFUSABLE_EVENT}'`)
      return async () => {
        // Finding the row takes a dozen inserts, each of them longer on a busy machine.
        await waitFor(async () => await countRefused(system) > before, { timeoutMs: 30_000, everyMs: 100 })
          .finally(async () => await system.command(`ALTER TABLE events DROP CONSTRAINT ${CONSTRAINT}`))
      }
    }
  }
]

/**
 * Publishes one message that is no frame of events.
 *
 * @param options.rows  What its headers say it holds; absent: it has no headers at all.
 * @returns its mark.
 */
export async function publishPoison (
  connection: NatsConnection, { lane, rows }: { lane: number, rows: number | undefined }
): Promise<string> {
  const poison = randomUUID()
  const marked = headers()
  marked.set(POISON_HEADER, poison)
  if (rows !== undefined) {
    marked.set(HEADER.layout, String(ROW_LAYOUT))
    marked.set(HEADER.rows, String(rows))
  }
  const fingerprints = randomBytes((rows ?? 1) * 8)
  const body = Buffer.concat([fingerprints, ZSTD_MAGIC, randomBytes(200)])
  await jetstream(connection).publish(eventsSubject('live', lane), body, { headers: marked })
  return poison
}

/** Dead letters with this mark. */
export async function countPoison (connection: NatsConnection, poison: string): Promise<number> {
  let count = 0
  for await (const { headers } of scanDeadLetters(connection, { stage: 'writer' })) {
    if (headers[POISON_HEADER] === poison) count++
  }
  return count
}

async function countRefused ({ connection }: Pick<FaultSystem, 'connection'>): Promise<number> {
  const counts = await countDeadLetters(connection, { stage: 'writer', reason: 'refused' })
  return counts.reduce((sum, { count }) => sum + count, 0)
}

function describeLetters (poison: string, letters: number): string | null {
  return letters === 1 ? null : `poisoned message ${poison} has ${letters} dead letters`
}
