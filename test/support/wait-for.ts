import { setTimeout as delay } from 'node:timers/promises'

export interface WaitForOptions {
  /** Gives up after this long, in milliseconds. Default 10,000. */
  timeoutMs?: number
  /** Pause between two looks, in milliseconds. Default: 20, and a tenth of the wait so far when that is longer. */
  everyMs?: number
}

/** Many looks are a query, and many tests wait at a time. */
const MAX_PAUSE_MS = 100

type Truthy<T> = Exclude<T, false | undefined | null | 0 | ''>

/**
 * Waits until a condition holds, instead of sleeping for a guessed time.
 *
 * @param condition  Looks once; anything truthy ends the wait. A rejection counts as "not yet".
 * @returns what the condition answered.
 * @throws when the time is up, with the last error of the condition as cause.
 */
export async function waitFor<T> (condition: () => T | Promise<T>, options: WaitForOptions = {}): Promise<Truthy<T>> {
  const { timeoutMs = 10_000, everyMs } = options
  const startedAt = performance.now()
  let lastError: unknown
  for (;;) {
    try {
      const answer = await condition()
      if (answer) return answer as Truthy<T>
      lastError = undefined
    } catch (error) {
      lastError = error
    }
    const waitedMs = performance.now() - startedAt
    if (waitedMs >= timeoutMs) {
      throw new Error(`waited ${timeoutMs} ms in vain for: ${String(condition)}`, { cause: lastError })
    }
    await delay(everyMs ?? Math.min(Math.max(20, waitedMs / 10), MAX_PAUSE_MS))
  }
}
