/** What a seed decides: how much comes when, and what goes wrong. */
import { createRandom, pickOne } from '../support/random.ts'
import type { SentMessage } from './fake-stream.ts'
import type { World } from './virtual-time.ts'

export interface Scenario {
  /** After this nothing goes wrong any more, in milliseconds. */
  healedAfterMs: number
  messages: number
  /** Changes of persons; 0: nobody applies any. */
  updates: number
  processes: number
  ingests: number
  partitions: number
  shards: number
  /** An insert whose answer is lost stores its rows within so long, in milliseconds. */
  longestInsertMs: number
  /** ClickHouse remembers the tokens of so many inserts. */
  tokenWindow: number
  /** The table lacks a column between these two moments, as while it is migrated; the same moment twice: never. */
  migration: [from: number, to: number]
  /** How often something goes wrong: 0 in kinds of faults that a seed does not have. */
  rates: Record<Rate, number>
}

const RATES = {
  lostRequest: 0.05, lostAnswer: 0.08, lateRequest: 0.04, lostDelivery: 0.03,
  insertError: 0.15, insertSilent: 0.12, queryError: 0.04,
  powerCut: 0.2, election: 0.5, disconnect: 0.6, freeze: 0.7, kill: 0.5,
  lostStatement: 0.03, restart: 0.3
} as const

type Rate = keyof typeof RATES

/** Each seed has some of the kinds of faults, so that not every seed drowns in all of them. */
export function chooseScenario (seed: number): Scenario {
  const random = createRandom(seed ^ 0x5eed)
  const rates = Object.fromEntries(Object.entries(RATES)
    .map(([name, most]) => [name, random() < 0.5 ? 0 : most * random()])) as Record<Rate, number>
  const healedAfterMs = 20_000 + random() * 60_000
  const migratedAt = random() * healedAfterMs
  const isMigrated = random() < 0.3
  const isForgetful = random() < 0.3
  return {
    healedAfterMs,
    // What is stored after its token was forgotten, or its rows were looked up, is stored twice: nobody can know of it.
    longestInsertMs: isMigrated || isForgetful ? 1000 : 119_000,
    tokenWindow: isForgetful ? 4 : Infinity,
    migration: [migratedAt, isMigrated ? migratedAt + random() * 30_000 : migratedAt],
    updates: random() < 0.4 ? 8 + Math.floor(random() * 60) : 0,
    messages: 10 + Math.floor(random() * 44),
    processes: 1 + Math.floor(random() * 2.5),
    ingests: 1 + Math.floor(random() * 2),
    // The inserts of another partition would push tokens out of the window while this one waits.
    partitions: isForgetful || random() < 0.6 ? 1 : 2,
    shards: random() < 0.6 ? 1 : 2,
    rates
  }
}

/** What becomes of a message from a client. */
export type MessageFate = 'handled' | 'lost' | 'answer lost' | 'late'

/** What becomes of an insert. */
export type InsertFate =
  /** Stored, and answered. */
  | { kind: 'stored' }
  /** Answered with an error of this code, before anything is stored or after `shards` of the shards stored it. */
  | { kind: 'refused', code: number, shards: number }
  /** Never answered: stored after so long on so many shards, or not at all (0 shards). */
  | { kind: 'silent', shards: number, afterMs: number }

/** What goes wrong, asked at each step. */
export type Faults = ReturnType<typeof createFaults>

/** Codes of ClickHouse with which an insert may be repeated as it is; the last one when it broke off between nodes. */
const RETRIED = [0, 241, 252, 319, 16]

export function createFaults (world: World, scenario: Scenario) {
  const { rates, healedAfterMs, migration, longestInsertMs, tokenWindow } = scenario
  const happens = (rate: Rate): boolean => world.now < healedAfterMs && world.chance(rates[rate])
  return {
    fateOf ({ subject }: SentMessage): MessageFate {
      if (subject.startsWith('$JS.ACK')) return 'handled'
      if (happens('lostRequest')) return 'lost'
      if (happens('lostAnswer')) return 'answer lost'
      return happens('lateRequest') ? 'late' : 'handled'
    },
    fateOfStatement (): MessageFate {
      return happens('lostStatement') ? pickOne(['lost', 'answer lost', 'late'], world.random) : 'handled'
    },
    losesDelivery: () => happens('lostDelivery'),
    fateOfInsert (shards: number): InsertFate {
      const some = Math.floor(world.between(0, shards + 1))
      if (happens('insertSilent')) {
        return { kind: 'silent', shards: some, afterMs: longestInsertMs * world.random() ** 3 }
      }
      return happens('insertError') ? { kind: 'refused', code: pickOne(RETRIED, world.random), shards: some } : { kind: 'stored' }
    },
    failsQuery: () => happens('queryError'),
    // Of several servers, one after the other.
    isMigrating: () => world.now >= migration[0] && world.now < migration[1] && Math.floor(world.now / 700) % 2 === 0,
    tokenWindow
  }
}
