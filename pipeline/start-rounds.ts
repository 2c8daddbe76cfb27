import { setTimeout as delay } from 'node:timers/promises'
import { type Counter } from '../platform/metrics.ts'

/** How long the end of the process waits for a round, in milliseconds: each is repeatable, so nothing is lost by it. */
const STOP_MS = 1000

export interface RoundsOptions {
  /** From the begin of a round to the begin of the next one, in milliseconds. */
  intervalMs: number
  /** Does the work; answers how it ended, which is counted. */
  round: () => Promise<string>
  /** Counts rounds by how they ended. */
  rounds: Counter<'outcome'>
  /** Told why a round failed. The next one comes at its time all the same. */
  onFailure: (error: unknown) => void
}

/** Does work at once and then at every interval, never twice at a time, until stopped. */
export function startRounds ({ intervalMs, round, rounds, onFailure }: RoundsOptions): { stop: () => Promise<void> } {
  async function doRound (): Promise<void> {
    try {
      rounds.inc({ outcome: await round() })
    } catch (error) {
      rounds.inc({ outcome: 'failed' })
      onFailure(error)
    }
  }

  let running = doRound()
  const timer = setInterval(() => { running = running.then(doRound) }, intervalMs)
  return {
    async stop () {
      clearInterval(timer)
      await Promise.race([running, delay(STOP_MS, undefined, { ref: false })])
    }
  }
}
