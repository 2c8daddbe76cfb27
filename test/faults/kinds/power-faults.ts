import { setTimeout as delay } from 'node:timers/promises'
import { type KvEntry, Kvm } from '@nats-io/kv'
import type { PartitionRecord } from '../../../pipeline/stream/partition-records.ts'
import type { NatsConnection } from '../../../platform/nats/connect-nats.ts'
import { FLUSH_SETTINGS } from '../../../schema/migrate/migrate-clickhouse.ts'
import { PARTITIONS_BUCKET } from '../../../schema/wire/streams.ts'
import { waitFor } from '../../support/wait-for.ts'
import type { InsertFault } from '../system/clickhouse-fault-proxy.ts'
import type { FaultSystem } from '../system/fault-system.ts'
import type { SmallDisk } from '../system/small-disk.ts'
import type { Fault, FaultContext, Heal } from './fault.ts'

/**
 * How long the load runs first, so that there is something to lose, in milliseconds. Linux writes by itself what is
 * older than 30 s.
 */
const GATHER_MS = { least: 3000, most: 15_000 }

/** How long one class of partitions is behind before `power-cut-behind`, in milliseconds. */
const BEHIND_MS = 180_000

/** Three servers that start at once need some seconds until each stream has a leader, on a busy machine more. */
const ELECTION_TIMEOUT_MS = 60_000

const BUSY: InsertFault = { kind: 'answer', code: 252, name: 'TOO_MANY_PARTS', text: 'Too many parts (3000)' }

/** The machine goes dark: every process ends in the same moment, and what no store had flushed never was. */
export const POWER_FAULTS: readonly Fault[] = [
  {
    name: 'power-cut',
    what: 'the power fails: all processes are gone, and with them all that was not flushed to the disk',
    lastsMs: [1000, 500],
    unavailable,
    async inject (context) {
      const { random, note } = context
      const gatherMs = Math.round(GATHER_MS.least + random() * (GATHER_MS.most - GATHER_MS.least))
      note(`after ${gatherMs} ms`)
      await delay(gatherMs)
      return await cutPower(context)
    }
  }
]

/**
 * Of minutes, so it is run only by its name: messages of partitions that are behind lie between those that were
 * acknowledged, and nats-server rewrites their blocks. One that does not flush what it rewrites loses them.
 */
export const POWER_CUT_BEHIND: Fault = {
  name: 'power-cut-behind',
  what: 'the power fails after three minutes in which the historical partitions were behind',
  lastsMs: [1000, 500],
  unavailable,
  async inject (context) {
    const { clickhouse } = context.system.proxies
    clickhouse.set((_, token) => token.includes(':historical.') ? BUSY : undefined)
    await delay(BEHIND_MS)
    const spoiled = clickhouse.injected
    context.expect(async () => spoiled > 0 ? null : 'no partition was behind')
    const heal = await cutPower(context)
    clickhouse.set(undefined)
    return heal
  }
}

function unavailable (disk: SmallDisk | null): string | null {
  return disk?.power == null ? 'only root can mount an image of that file system, and only where there are loop devices' : null
}

async function cutPower ({ system, disk, random, expect }: FaultContext): Promise<Heal> {
  const records = await watchRecords(system.connection)
  // Nobody may see that the disk is gone and tell a client before the end.
  await Promise.all(system.parts.map((part) => part.pause()))
  await disk?.power?.cut(Math.floor(random() * 1e6))
  const nats = system.natsNodes.length > 0 ? system.natsNodes : [system.nats]
  const startServices = await Promise.all([...nats, system.clickhouse, system.postgres].map((part) => part.keepStopped('kill')))
  const startTiers = await Promise.all([...system.ingest, ...system.pipeline, system.api].map((part) => part.keepStopped('kill')))
  await disk?.power?.restore()
  return async () => {
    await Promise.all(startServices.map((start) => start()))
    // Before a pipeline process writes them anew.
    const wrong = await records.findLost()
    expect(async () => wrong.length === 0 ? null : `partition records: ${wrong.join('; ')}`)
    await Promise.all(startTiers.map((start) => start()))
  }
}

/** Follows what NATS has said of the partition records, which it has acknowledged by then. */
async function watchRecords (connection: NatsConnection): Promise<{ findLost: () => Promise<string[]> }> {
  const bucket = await new Kvm(connection).open(PARTITIONS_BUCKET)
  const seen = new Map<string, { revision: number, done: number }>()
  const watch = await bucket.watch()
  const following = (async () => {
    for await (const entry of watch) {
      if (entry.operation === 'PUT' && entry.length > 0) seen.set(entry.key, { revision: entry.revision, done: entry.json<PartitionRecord>().done })
    }
  })()
  await waitFor(() => seen.size > 0)
  return {
    async findLost () {
      watch.stop()
      await following
      const wrong: string[] = []
      for (const [key, { revision, done }] of seen) {
        // A cluster elects its leaders first. Found or not, it is an answer.
        const read = async (): Promise<{ entry: KvEntry | null }> => ({ entry: await bucket.get(key) })
        const { entry } = await waitFor(read, { timeoutMs: ELECTION_TIMEOUT_MS })
        if (entry === null) wrong.push(`${key} is gone, which was done up to ${done}`)
        else if (entry.revision < revision) wrong.push(`${key} went back from revision ${revision} to ${entry.revision}`)
      }
      return wrong
    }
  }
}

/** Turns off the flushes of ClickHouse, to show that `power-cut` finds lost events. */
export async function stopFlushing ({ select, command }: Pick<FaultSystem, 'select' | 'command'>): Promise<void> {
  const tables = await select<{ name: string }>(
    "SELECT name FROM system.tables WHERE database = currentDatabase() AND position(engine_full, 'fsync_after_insert') > 0")
  const settings = Object.keys(FLUSH_SETTINGS).map((name) => `${name} = 0`).join(', ')
  for (const { name } of tables) await command(`ALTER TABLE ${name} MODIFY SETTING ${settings}`)
}
