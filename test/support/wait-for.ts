import { setTimeout as delay } from 'node:timers/promises'

/**
 * How long one step of a test may take, in milliseconds. A limit is there for what hangs: a passing test never waits
 * for it, and a machine that is five times slower than ours must not reach it. Of `waitFor` and of the browser.
 */
export const PATIENCE_MS = 180_000

export interface WaitForOptions {
  /** Gives up after this long, in milliseconds. Default: `PATIENCE_MS`. */
  timeoutMs?: number
  /**
   * Pause between two checks, in milliseconds. Default 20 at first, growing to 50, and to 250 where the check itself
   * takes long: it takes CPU from others.
   */
  everyMs?: number
}

const FIRST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 50
/** By how much longer than a check the pause behind it is. */
const PAUSE_FACTOR = 8
const LONGEST_PAUSE_OF_SLOW_CHECKS_MS = 250

type Truthy<T> = Exclude<T, false | undefined | null | 0 | ''>

/**
 * Waits until a condition holds, instead of sleeping for a guessed time.
 *
 * @param condition  Checks once; anything truthy ends the wait. A rejection counts as "not yet".
 * @returns what the condition answered.
 * @throws when the time is up, with the last error of the condition as cause.
 */
export async function waitFor<T> (condition: () => T | Promise<T>, options: WaitForOptions = {}): Promise<Truthy<T>> {
  const { timeoutMs = PATIENCE_MS, everyMs } = options
  let pauseMs = everyMs ?? FIRST_PAUSE_MS
  const deadline = performance.now() + timeoutMs
  let lastError: unknown
  for (;;) {
    const checkedAt = performance.now()
    try {
      const answer = await condition()
      if (answer) return answer as Truthy<T>
      lastError = undefined
    } catch (error) {
      lastError = error
    }
    const tookMs = performance.now() - checkedAt
    if (performance.now() >= deadline) {
      // In the message too: not every reporter shows causes.
      const last = lastError === undefined ? '' : `; at last: ${String(lastError)}`
      throw new Error(`waited ${timeoutMs} ms in vain for: ${String(condition)}${last}`, { cause: lastError })
    }
    await delay(pauseMs)
    if (everyMs !== undefined) continue
    const ofCheck = Math.min(PAUSE_FACTOR * tookMs, LONGEST_PAUSE_OF_SLOW_CHECKS_MS)
    pauseMs = Math.max(Math.min(pauseMs * 1.25, LONGEST_PAUSE_MS), ofCheck)
  }
}
