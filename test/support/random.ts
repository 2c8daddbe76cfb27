/** Numbers from 0 to below 1. */
export type Random = () => number

/** The generator mulberry32: the same seed gives the same numbers, so that a run can be repeated. */
export function createRandom (seed: number): Random {
  let state = seed | 0
  return () => {
    state = state + 0x6d2b79f5 | 0
    let mixed = Math.imul(state ^ state >>> 15, 1 | state)
    mixed = mixed + Math.imul(mixed ^ mixed >>> 7, 61 | mixed) ^ mixed
    return ((mixed ^ mixed >>> 14) >>> 0) / 4_294_967_296
  }
}

export function pickOne<T> (items: readonly T[], random: Random): T {
  return items[Math.floor(random() * items.length)] as T
}

/** A copy in random order. */
export function shuffle<T> (items: readonly T[], random: Random): T[] {
  const shuffled = [...items]
  for (let last = shuffled.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1))
    const moved = shuffled[last] as T
    shuffled[last] = shuffled[other] as T
    shuffled[other] = moved
  }
  return shuffled
}
