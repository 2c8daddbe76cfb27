/** How much longer the work on the larger of two inputs takes that differ by {@link SIZE_FACTOR}. */
export const SIZE_FACTOR = 16

/** Between linear work, which grows by {@link SIZE_FACTOR}, and quadratic work, which grows by its square. */
export const LINEAR_GROWTH = 80

/** Runs of each work at most: the cheapest counts, because the first ones are compiled, and any may collect garbage. */
const RUNS = 5

/** What is shorter is not measured, in milliseconds. */
const LEAST_MS = 0.5

/**
 * How many times the CPU of one work another one takes. It says how an algorithm grows, on a fast machine as on a slow
 * one, which a number of milliseconds does not.
 *
 * @param enough  At or below this the answer is not measured more precisely.
 */
export function compareCpu (small: () => void, large: () => void, enough: number): number {
  const base = Math.max(LEAST_MS, Math.min(...Array.from({ length: RUNS }, () => cpuOf(small))))
  let least = Infinity
  // Twice that is no accident, and may take minutes.
  for (let run = 0; run < RUNS && least / base > enough && (run === 0 || least / base < 2 * enough); run++) {
    least = Math.min(least, cpuOf(large))
  }
  return least / base
}

/** By how many times the CPU of some work grows from a sixteenth of a size to the size: see {@link LINEAR_GROWTH}. */
export function measureGrowth (work: (size: number) => void, size: number): number {
  return compareCpu(() => work(Math.ceil(size / SIZE_FACTOR)), () => work(size), LINEAR_GROWTH)
}

/** CPU time of this process, which does nothing else meanwhile: that of a thread is known only at each tick. */
function cpuOf (work: () => void): number {
  const before = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}
