/**
 * Reads wall clock times of a zone that were counted as if they were UTC.
 *
 * @returns a function from such a time to the instant, both epoch milliseconds. Of a time that a change of the clock
 *   repeats, the first; of one that it skips, the one an hour later.
 */
export function createZoneReader (timeZone: string): (wallMs: number) => number {
  if (timeZone === 'UTC') return (ms) => ms
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric'
  })
  const offsetAt = (ms: number): number => {
    const parts = Object.fromEntries(format.formatToParts(ms).map(({ type, value }) => [type, Number(value)]))
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts
    return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(ms / 1000) * 1000
  }
  /** Offsets change on a quarter of an hour, and asking for one takes microseconds. */
  const known = new Map<number, number>()
  const offsetOf = (ms: number): number => {
    const quarter = Math.floor(ms / 900_000)
    const offset = known.get(quarter) ?? offsetAt(ms)
    if (known.size > 100_000) known.clear()
    known.set(quarter, offset)
    return offset
  }
  return (wallMs) => {
    const before = offsetOf(wallMs - 86_400_000)
    const after = offsetOf(wallMs + 86_400_000)
    const early = wallMs - Math.max(before, after)
    if (before === after) return early
    return offsetOf(early) === Math.max(before, after) ? early : wallMs - Math.min(before, after)
  }
}
