/**
 * Between work that grows with its input, sixteen times as large here, and work that grows with its square: 256 times.
 * What fits into the processor's caches is cheap, which makes the former up to 80 times.
 */
export const LINEAR_GROWTH = 160

/** By how many times the CPU of some work grows from a sixteenth of a size to the size; the cheapest run counts. */
export function measureGrowth (work: (size: number) => void, size: number): number {
  const least = (size: number): number => Math.min(...Array.from({ length: 5 }, () => cpuOf(() => work(size))))
  return least(size) / Math.max(0.5, least(Math.ceil(size / 16)))
}

/** CPU time of this process, which does nothing else meanwhile, in milliseconds. */
function cpuOf (work: () => void): number {
  const before = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}
