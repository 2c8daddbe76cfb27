import { setTimeout as delay } from 'node:timers/promises'
import { FLUSH_SETTINGS } from '../../../schema/migrate/migrate-clickhouse.ts'
import type { Fault } from './fault.ts'
import type { FaultSystem } from '../system/fault-system.ts'

/**
 * How long the load runs first, so that there is something to lose, in milliseconds. Linux writes by itself what is
 * older than 30 s.
 */
const GATHER_MS = { least: 3000, most: 15_000 }

/** The machine goes dark: every process ends in the same moment, and what no store had flushed never was. */
export const POWER_FAULTS: readonly Fault[] = [
  {
    name: 'power-cut',
    what: 'the power fails: all processes are gone, and with them all that was not flushed to the disk',
    lastsMs: [1000, 500],
    unavailable: (disk) => disk?.power == null ? 'only root can mount an ext4 image, and only where there are loop devices' : null,
    async inject ({ system, disk, random, note }) {
      const gatherMs = Math.round(GATHER_MS.least + random() * (GATHER_MS.most - GATHER_MS.least))
      note(`after ${gatherMs} ms`)
      await delay(gatherMs)
      // Nobody may see that the disk is gone and tell a client before the end.
      await Promise.all(system.parts.map((part) => part.pause()))
      await disk?.power?.cut()
      const startServices = await Promise.all([system.nats, system.clickhouse, system.postgres].map((part) => part.keepStopped('kill')))
      const startTiers = await Promise.all([...system.ingest, ...system.pipeline, system.api].map((part) => part.keepStopped('kill')))
      await disk?.power?.restore()
      return async () => {
        await Promise.all(startServices.map((start) => start()))
        await Promise.all(startTiers.map((start) => start()))
      }
    }
  }
]

/** Takes back that ClickHouse flushes: anyone who doubts `power-cut` can see it find what is lost. */
export async function stopFlushing ({ select, command }: Pick<FaultSystem, 'select' | 'command'>): Promise<void> {
  const tables = await select<{ name: string }>(
    "SELECT name FROM system.tables WHERE database = currentDatabase() AND position(engine_full, 'fsync_after_insert') > 0")
  const settings = Object.keys(FLUSH_SETTINGS).map((name) => `${name} = 0`).join(', ')
  for (const { name } of tables) await command(`ALTER TABLE ${name} MODIFY SETTING ${settings}`)
}
