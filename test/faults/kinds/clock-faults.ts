import { rm, writeFile } from 'node:fs/promises'
import type { Fault } from './fault.ts'
import type { FaultSystem } from '../system/fault-system.ts'

const HOUR_MS = 3_600_000

/** The clocks of the tiers; that of the machine, and so of the services, is left alone. */
export const CLOCK_FAULTS: readonly Fault[] = [
  {
    name: 'clock-back',
    what: 'the clock of ingest and pipeline jumps back by an hour, then forward again',
    lastsMs: [6000, 1500],
    inject: async ({ system }) => await shiftClocks(system, { ingest: -HOUR_MS, pipeline: -HOUR_MS })
  },
  {
    name: 'clocks-apart',
    what: 'ingest is two days ahead of the services, the pipeline three days behind them, then both are right again',
    lastsMs: [20_000, 6000],
    inject: async ({ system }) => await shiftClocks(system, { ingest: 48 * HOUR_MS, pipeline: -72 * HOUR_MS })
  }
]

/** @returns how to put them right. */
async function shiftClocks (
  { clockFile }: Pick<FaultSystem, 'clockFile'>, shifts: Readonly<Record<'ingest' | 'pipeline', number>>
): Promise<() => Promise<void>> {
  const tiers = ['ingest', 'pipeline'] as const
  for (const tier of tiers) await writeFile(clockFile(tier), String(shifts[tier]))
  return async () => { for (const tier of tiers) await rm(clockFile(tier), { force: true }) }
}
