import { rm, writeFile } from 'node:fs/promises'
import { type Fault } from './fault.ts'

const HOUR_MS = 3_600_000

/** The clock of the tiers; that of the machine, and so of the services, is left alone. */
export const CLOCK_FAULTS: readonly Fault[] = [
  {
    name: 'clock-back',
    what: 'the clock of ingest and pipeline jumps back by an hour, then forward again',
    lastsMs: [6000, 1500],
    async inject ({ system }) {
      await writeFile(system.clockFile, String(-HOUR_MS))
      return async () => { await rm(system.clockFile, { force: true }) }
    }
  }
]
