import { setTimeout as delay } from 'node:timers/promises'
import { jetstream, JetStreamApiError, jetstreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { DEAD_LETTER_STREAM, EVENTS_STREAM } from '../../../schema/wire/streams.ts'
import { countPoison, publishPoison } from './event-faults.ts'
import type { Fault } from './fault.ts'
import { waitFor } from '../../support/wait-for.ts'
import { PARTITIONS } from '../system/fault-processes.ts'
import type { FaultSystem } from '../system/fault-system.ts'

/** A subject of the stream that nobody reads. Lowering its limit would not do: ingest puts that right. */
const FILLER_SUBJECT = 'events.filler.0'
/** The smallest is less than a dead letter: one that still fits keeps its partition from waiting. */
const FILLER_BYTES = [4_000_000, 250_000, 16_000, 1000, 50]
/** The pipeline empties the stream all the time. */
const REFILL_EVERY_MS = 50

/** A subject of the dead letters that nobody lists. */
const DEAD_FILLER_SUBJECT = 'dead.filler.filler'

/** The load fills it in about three seconds. */
const TINY_SPOOL_BYTES = 131_072

/** What is full. */
export const CAPACITY_FAULTS: readonly Fault[] = [
  {
    name: 'stream-full',
    what: 'the events stream has no room',
    lastsMs: [10_000, 2500],
    async inject ({ system: { connection } }) {
      const stopped = new AbortController()
      await fillStream(connection)
      const filling = (async () => {
        while (!stopped.signal.aborted) {
          await fillStream(connection)
          await delay(REFILL_EVERY_MS)
        }
      })()
      return async () => {
        stopped.abort()
        await filling
        await (await jetstreamManager(connection)).streams.purge(EVENTS_STREAM, { filter: FILLER_SUBJECT })
      }
    }
  },
  {
    name: 'dead-letters-full',
    what: 'a message of each partition must be dead-lettered, and the dead-letter stream has no room: partitions wait, and say so',
    lastsMs: [15_000, 4000],
    async inject ({ system, expect }) {
      const { connection } = system
      await fillStream(connection, DEAD_FILLER_SUBJECT)
      const poisons: string[] = []
      for (let partition = 0; partition < PARTITIONS; partition++) {
        poisons.push(await publishPoison(connection, { partition, rows: 1 }))
      }
      return async () => {
        const wanted = ['dead letters', ...poisons.map((_, partition) => `partition live.${partition}`)]
        let stuck: string[] = []
        // On a busy machine it takes some inserts until a message is known to be bad.
        await waitFor(async () => {
          stuck = await listStuck(system)
          return wanted.every((part) => stuck.includes(part))
        }, { timeoutMs: 20_000 }).catch(() => {})
        const missing = wanted.filter((part) => !stuck.includes(part))
        expect(async () => missing.length === 0 ? null : `/_health did not name ${missing.join(', ')}`)
        for (const poison of poisons) {
          expect(async () => await countPoison(connection, poison) === 1 ? null : `message ${poison} is not dead-lettered once`)
        }
        await (await jetstreamManager(connection)).streams.purge(DEAD_LETTER_STREAM, { filter: DEAD_FILLER_SUBJECT })
      }
    }
  },
  {
    name: 'spool-full',
    what: 'nats-server is unavailable and the spools are full: clients get 503',
    lastsMs: [15_000, 7000],
    async inject ({ system, ledger, expect }) {
      await restartIngest(system, { MILLRACE_SPOOL_MAX_BYTES: String(TINY_SPOOL_BYTES) })
      const comeBack = await system.nats.keepStopped()
      const phase = ledger.phases.at(-1)
      const before = phase?.retries ?? 0
      return async () => {
        const refused = (phase?.retries ?? 0) - before
        expect(async () => refused > 0 ? null : 'no request was refused')
        await comeBack()
        delete system.tierSettings.MILLRACE_SPOOL_MAX_BYTES
        await restartIngest(system, {})
      }
    }
  },
  {
    name: 'disk-full',
    what: 'the disk with all data has no room',
    lastsMs: [15_000, 8000],
    unavailable: (disk) => disk === null ? 'only root can mount a small disk' : null,
    async inject ({ system, disk, expect }) {
      expect(async () => {
        const damaged = await findDamagedParts(system.select)
        return damaged.length === 0 ? null : `damaged parts: ${damaged.join(', ')}`
      })
      await disk?.fill()
      return async () => { await disk?.free() }
    }
  }
]

/** Active parts whose files are not what their checksums say, as a merge on a full disk might leave them. */
export async function findDamagedParts (select: FaultSystem['select']): Promise<string[]> {
  const tables = await select<{ name: string }>(
    "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'")
  const checked = await Promise.all(tables.map(async ({ name }) => (await select<PartCheck>(
    `CHECK TABLE ${name} SETTINGS check_query_single_value_result = 0`)).map((part) => ({ name, ...part }))))
  const parts = checked.flat()
  if (parts.length === 0) return ['no part was checked']
  return parts.filter((part) => !part.is_passed).map((part) => `${part.name} ${part.part_path}: ${part.message}`)
}

interface PartCheck {
  part_path: string
  is_passed: 0 | 1 | boolean
  message: string
}

/** What both pipeline processes call stuck. */
export async function listStuck ({ pipeline }: FaultSystem): Promise<string[]> {
  const reports = await Promise.all(pipeline.map(async ({ port }) => {
    const response = await fetch(`http://127.0.0.1:${port}/_health`, { signal: AbortSignal.timeout(5000) })
    return await response.json() as { stuck: string[] }
  }))
  return reports.flatMap(({ stuck }) => stuck)
}

async function fillStream (connection: NatsConnection, subject = FILLER_SUBJECT): Promise<void> {
  for (const bytes of FILLER_BYTES) {
    const filler = Buffer.alloc(bytes)
    let hasRoom = true
    while (hasRoom) hasRoom = await isTaken(connection, subject, filler)
  }
}

/** False when the stream is full. */
async function isTaken (connection: NatsConnection, subject: string, filler: Uint8Array): Promise<boolean> {
  try {
    await jetstream(connection).publish(subject, filler)
    return true
  } catch (error) {
    if (error instanceof JetStreamApiError) return false
    throw error
  }
}

async function restartIngest ({ ingest, tierSettings }: FaultSystem, settings: Record<string, string>): Promise<void> {
  Object.assign(tierSettings, settings)
  for (const part of ingest) await part.restart()
}
