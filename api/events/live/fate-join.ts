import { FINGERPRINT_BYTES } from '../../../schema/wire/frame-message.ts'
import type { Fate, Fates } from '../../../schema/wire/live-feed.ts'

/** Events whose fate is awaited or was told lately; the oldest are forgotten. */
const MAX_KNOWN = 20_000

/** Fates of rows that have not been announced, in each of two generations. */
const MAX_EARLY = 20_000

/** Age of a generation, in milliseconds: ingest announces events every 100 ms, and a row may be stored sooner. */
const GENERATION_MS = 1500

/** What became of an event that is shown. */
export interface ToldFate {
  /** Number of the event. */
  number: number
  fate: Fate
  /** When it was known, epoch milliseconds. */
  at: number
}

/** Fates that came before their events, by fingerprint. */
type Early = Map<string, { fate: Fate, at: number }[]>

interface Known { waiting: number[], last: number }

/**
 * Finds which of the events that are shown a fate belongs to, by fingerprints: both sides of an event travel by ways of
 * their own, and either may come first.
 *
 * Events with one fingerprint are sendings of one event. Their fates come in the order of the stream, so they are dealt
 * out in the order of arrival. One that nobody waits for is kept for the event that it came before; when none comes, it
 * is the later word about the last one: of two sendings one was not shown.
 */
export class FateJoin {
  readonly #known = new Map<string, Known>()
  #early: Early = new Map()
  #earlier: Early = new Map()
  #turnAt = 0

  /** @returns its fate, when that came first. */
  expect (number: number, fingerprint: string): ToldFate | null {
    const key = Buffer.from(fingerprint, 'hex').toString('latin1')
    let known = this.#known.get(key)
    if (known === undefined) {
      const [oldest] = this.#known.keys()
      if (this.#known.size >= MAX_KNOWN && oldest !== undefined) this.#known.delete(oldest)
      this.#known.set(key, known = { waiting: [], last: number })
    } else {
      known.last = number
    }
    const early = this.#earlier.get(key)?.shift() ?? this.#early.get(key)?.shift()
    if (early !== undefined) return { number, ...early }
    known.waiting.push(number)
    return null
  }

  /** @param now  Epoch milliseconds. */
  tell ({ fate, at }: Pick<Fates, 'fate' | 'at'>, keys: readonly string[], now: number): ToldFate[] {
    const told = this.turn(now)
    for (const key of keys) {
      const number = this.#known.get(key)?.waiting.shift()
      if (number === undefined) this.#keep(key, { fate, at })
      else told.push({ number, fate, at })
    }
    return told
  }

  #keep (key: string, fate: { fate: Fate, at: number }): void {
    const kept = this.#early.get(key)
    if (kept !== undefined) kept.push(fate)
    else if (this.#early.size < MAX_EARLY) this.#early.set(key, [fate])
  }

  /** Gives up what came too early for any event. @param now  Epoch milliseconds. */
  turn (now: number): ToldFate[] {
    if (now - this.#turnAt < GENERATION_MS) return []
    const told: ToldFate[] = []
    for (const [key, fates] of this.#earlier) {
      const known = this.#known.get(key)
      const last = fates.at(-1)
      if (known !== undefined && last !== undefined) told.push({ number: known.last, ...last })
    }
    this.#turnAt = now
    this.#earlier = this.#early
    this.#early = new Map()
    return told
  }
}

/** The fingerprints of a message as keys of `FateJoin.tell`. */
export function keysOf ({ fingerprints }: Fates): string[] {
  const text = Buffer.from(fingerprints.buffer, fingerprints.byteOffset, fingerprints.byteLength).toString('latin1')
  return Array.from({ length: text.length / FINGERPRINT_BYTES }, (_, row) =>
    text.slice(row * FINGERPRINT_BYTES, (row + 1) * FINGERPRINT_BYTES))
}
