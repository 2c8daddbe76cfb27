/** Limits how much work runs at once. */
export interface Semaphore {
  /**
   * Runs work when a place is free, in the order in which it was asked for. Work whose turn comes after `maxWaitMs` is
   * not begun, as nobody waits for its result any more.
   *
   * @throws {SemaphoreTimeoutError} and whatever the work throws.
   */
  run: <T>(work: () => Promise<T>) => Promise<T>
  /** Takes a place at once; returns what gives it back, to be called once. Null when none is free. */
  tryAcquire: () => (() => void) | null
  /** Whether nothing runs. */
  readonly isIdle: boolean
}

/** The request was abandoned while it was queued. */
export class SemaphoreTimeoutError extends Error {
  constructor (maxWaitMs: number) {
    super(`request abandoned after ${maxWaitMs} ms in the queue`)
    this.name = 'SemaphoreTimeoutError'
  }
}

export interface SemaphoreOptions {
  /** Work that runs at once. */
  limit: number
  /** Longest time in the queue, in milliseconds. Default: none. */
  maxWaitMs?: number
  /** A monotonic clock, in milliseconds. */
  now?: () => number
}

export function createSemaphore (
  { limit, maxWaitMs = Infinity, now = () => performance.now() }: SemaphoreOptions
): Semaphore {
  const queue: (() => void)[] = []
  let running = 0

  function release (): void {
    const next = queue.shift()
    if (next === undefined) running--
    else next()
  }

  return {
    async run (work) {
      const queuedAt = now()
      if (running < limit) running++
      else await new Promise<void>((resolve) => { queue.push(resolve) })
      try {
        if (now() - queuedAt > maxWaitMs) throw new SemaphoreTimeoutError(maxWaitMs)
        return await work()
      } finally {
        release()
      }
    },
    tryAcquire () {
      if (running >= limit) return null
      running++
      return release
    },
    get isIdle () {
      return running === 0
    }
  }
}
