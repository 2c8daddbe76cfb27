/** Runs work when it is its turn. */
export type TakeTurn = <T>(work: () => Promise<T>) => Promise<T>

/**
 * Lets only so much work run at once; the rest waits in the order in which it came. For routes whose work takes the CPU
 * of this process or a store for long, which other requests need as well.
 *
 * Work whose turn comes after its reader has given up is not begun: nothing is done that nobody waits for.
 *
 * @param options.patienceMs  How long a reader waits.
 */
export function createTakeTurn (
  { atOnce, patienceMs, now = () => performance.now() }: { atOnce: number, patienceMs: number, now?: () => number }
): TakeTurn {
  const waiting: (() => void)[] = []
  let running = 0
  return async function takeTurn (work) {
    const askedAt = now()
    if (running < atOnce) running++
    else await new Promise<void>((resolve) => { waiting.push(resolve) })
    try {
      if (now() - askedAt > patienceMs) throw new Error('nobody waits for this any more')
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }
}
