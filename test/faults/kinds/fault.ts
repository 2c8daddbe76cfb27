import type { FaultSystem } from '../system/fault-system.ts'
import type { LoadLedger } from '../load-ledger.ts'
import type { Random } from '../../support/random.ts'
import type { SmallDisk } from '../system/small-disk.ts'

/** Ends a fault, so that the system can recover. */
export type Heal = () => Promise<void>

/** Checks an expectation once all is drained; returns the problem, or null. */
export type Expectation = () => Promise<string | null>

export interface FaultContext {
  system: FaultSystem
  ledger: LoadLedger
  random: Random
  /** How long the fault lasts this time, in milliseconds. */
  lastsMs: number
  /** The disk that holds all data, when it is a small one. */
  disk: SmallDisk | null
  /** Says which choice was made. */
  note (text: string): void
  /** Adds an expectation to check at the end. */
  expect (expectation: Expectation): void
}

/** Something that goes wrong, and how it is put right again. */
export interface Fault {
  name: string
  /** One line for people. */
  what: string
  /** How long it lasts in a long run (10 minutes or more) and in a quick one, in milliseconds. */
  lastsMs: readonly [long: number, quick: number]
  /** Asked before the first one: why it cannot be done here; null when it can. */
  unavailable?: (disk: SmallDisk | null) => string | null | Promise<string | null>
  /**
   * Makes it happen. Between its end and the call of what it returns lie `lastsMs`.
   *
   * @throws {FaultUnavailableError} when it turns out only now that it cannot be done here.
   */
  inject (context: FaultContext): Promise<Heal>
}

/** A fault cannot be done on this machine: the report says why, and the run is not complete. */
export class FaultUnavailableError extends Error {
  /** @param why  For people, such as `only root can mount`. */
  constructor (why: string) {
    super(why)
    this.name = 'FaultUnavailableError'
  }
}
