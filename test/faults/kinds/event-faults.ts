import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { jetstream } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import { scanDeadLetters } from '../../../platform/dead-letters/read-dead-letters.ts'
import { countDeadLetters } from '../../../api/events/dead-letters/list-dead-letters.ts'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { ROW_LAYOUT } from '../../../schema/wire/event-row.ts'
import { FINGERPRINT_BYTES } from '../../../schema/wire/frame-message.ts'
import { eventsSubject, HEADER } from '../../../schema/wire/streams.ts'
import { waitFor } from '../../support/wait-for.ts'
import type { Fault } from './fault.ts'
import { pickOne } from '../../support/random.ts'
import { REFUSABLE_EVENT } from '../sdk-load.ts'
import { SDK_DISTINCT_ID } from './outage-faults.ts'
import { FAULT_PROJECT_KEY, type FaultSystem } from '../system/fault-system.ts'

/** Travels with the message into its dead letter. */
export const POISON_HEADER = 'Fault-Poison'

/** First bytes of a zstd frame: such a message is broken further inside. */
const ZSTD_MAGIC = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])

const CONSTRAINT = 'fault_constraint'

/** Event of imports; older ones are no part of what a definition counts over 30 days. */
export const LATE_EVENT = 'late event'

/** As many months as the batch has events: 83 years. */
const LATE_MONTHS = 1000

/** Events that ClickHouse cannot or will not take, among healthy ones. */
export const EVENT_FAULTS: readonly Fault[] = [
  {
    name: 'poisoned-message',
    what: 'messages with broken bytes in the events stream',
    lastsMs: [3000, 500],
    async inject ({ system: { connection }, random, expect }) {
      for (let count = 0; count < 4; count++) {
        const rows = pickOne([undefined, 1, 20], random)
        const poison = await publishPoison(connection, { partition: count % 2, rows })
        expect(async () => describeLetters(poison, await countPoison(connection, poison)))
        await delay(100)
      }
      return async () => {}
    }
  },
  {
    name: 'late-events',
    what: `one batch of ${LATE_MONTHS} events, each a month older than the one before; none may be dead-lettered`,
    lastsMs: [3000, 500],
    async inject ({ system }) {
      const before = await countRefused(system)
      const distinctId = `${SDK_DISTINCT_ID}late ${Date.now()}`
      await sendLate(system, distinctId)
      return async () => {
        const isStored = async (): Promise<boolean> => await countStored(system, distinctId) === LATE_MONTHS
        // Each month is a part in each table, flushed to the disk.
        await waitFor(isStored, { timeoutMs: 110_000, everyMs: 200 })
        const refused = await countRefused(system) - before
        if (refused > 0) throw new Error(`${refused} late events were dead-lettered`)
      }
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
        await waitFor(async () => await countRefused(system) > before, { everyMs: 100 })
          .finally(async () => await system.command(`ALTER TABLE events DROP CONSTRAINT ${CONSTRAINT}`))
      }
    }
  }
]

async function sendLate ({ ingest }: FaultSystem, distinctId: string): Promise<void> {
  const now = new Date()
  const batch = Array.from({ length: LATE_MONTHS }, (_, index) => ({
    event: LATE_EVENT, distinct_id: distinctId, uuid: randomUUID(), properties: { index },
    timestamp: new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - index, 5)).toISOString()
  }))
  const response = await fetch(`http://127.0.0.1:${ingest[0].port}/batch/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: FAULT_PROJECT_KEY, batch })
  })
  if (response.status !== 200) throw new Error(`late events were answered with ${response.status}`)
}

/** How many events of this distinct id are stored. */
export async function countStored ({ select }: FaultSystem, distinctId: string): Promise<number> {
  const [found] = await select<{ rows: number }>(
    'SELECT toUInt32(count()) AS rows FROM events WHERE distinct_id = {distinctId:String}', { distinctId })
  return found?.rows ?? 0
}

/**
 * Publishes one message that is no frame of events.
 *
 * @param options.rows  What its headers say it holds; absent: it has no headers at all.
 * @returns its mark.
 */
export async function publishPoison (
  connection: NatsConnection, { partition, rows }: { partition: number, rows: number | undefined }
): Promise<string> {
  const poison = randomUUID()
  const marked = headers()
  marked.set(POISON_HEADER, poison)
  if (rows !== undefined) {
    marked.set(HEADER.layout, String(ROW_LAYOUT))
    marked.set(HEADER.rows, String(rows))
  }
  const fingerprints = randomBytes((rows ?? 1) * FINGERPRINT_BYTES)
  const body = Buffer.concat([fingerprints, ZSTD_MAGIC, randomBytes(200)])
  await jetstream(connection).publish(eventsSubject('live', partition), body, { headers: marked })
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
  return await countDeadLetters(connection, { stage: 'writer', reason: 'refused' })
}

function describeLetters (poison: string, letters: number): string | null {
  return letters === 1 ? null : `poisoned message ${poison} has ${letters} dead letters`
}
