export type Semaphore = ReturnType<typeof createSemaphore>

/** The request was abandoned while it was queued. */
export class SemaphoreTimeoutError extends Error {
  constructor (maxWaitMs: number) {
    super(`request abandoned after ${maxWaitMs} ms in the queue`)
    this.name = 'SemaphoreTimeoutError'
  }
}

/**
 * Limits how much work runs at once.
 *
 * @param options.maxWaitMs  Longest time in the queue, in milliseconds. Default: none.
 * @param options.now  A monotonic clock, in milliseconds.
 */
export function createSemaphore (
  { limit, maxWaitMs = Infinity, now = () => performance.now() }:
  { limit: number, maxWaitMs?: number, now?: () => number }
) {
  const queue: (() => void)[] = []
  let running = 0

  function release (): void {
    const next = queue.shift()
    if (next === undefined) running--
    else next()
  }

  return {
    /**
     * Runs work when a place is free, in the order in which it was asked for; it may give the place back before it
     * ends. Work whose turn comes after `maxWaitMs` is not begun, as nobody waits for its result any more.
     *
     * @throws {SemaphoreTimeoutError} and whatever the work throws.
     */
    async run<T> (work: (leave: () => void) => Promise<T>): Promise<T> {
      const queuedAt = now()
      let giveBack: (() => void) | null = release
      const leave = (): void => { giveBack?.(); giveBack = null }
      if (running < limit) running++
      else await new Promise<void>((resolve) => { queue.push(resolve) })
      try {
        if (now() - queuedAt > maxWaitMs) throw new SemaphoreTimeoutError(maxWaitMs)
        return await work(leave)
      } finally {
        leave()
      }
    },
    /** Takes a place at once; returns what gives it back, to be called once. Null when none is free. */
    tryAcquire (): (() => void) | null {
      if (running >= limit) return null
      running++
      return release
    },
    /** Whether nothing runs. */
    get isIdle (): boolean {
      return running === 0
    }
  }
}
