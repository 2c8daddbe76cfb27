/** What a seed decides: how much comes when, and what goes wrong. */
import { createRandom, pickOne } from '../support/random.ts'
import type { SentMessage } from './fake-stream.ts'
import { ownerOfNow, type VirtualProcess, type World } from './virtual-time.ts'
import { SHORTER } from './world-constants.ts'

export interface Scenario {
  /** After this nothing goes wrong any more, in milliseconds. */
  healedAfterMs: number
  messages: number
  /** Number of different messages that clients send: the fewer, the more repetitions. */
  differentMessages: number
  /** Moments around which messages are sent, in milliseconds; none: all the time. */
  bursts: readonly number[]
  /** Whether a part of the messages is historical. */
  hasHistory: boolean
  /** Changes of persons; 0: nobody applies any. */
  updates: number
  processes: number
  ingests: number
  partitions: number
  shards: number
  /** An insert whose answer is lost stores its rows within so long, in milliseconds. */
  longestInsertMs: number
  /** Number of insert tokens that ClickHouse remembers. */
  tokenWindow: number
  /** The table lacks a column between these two moments, as while it is migrated; the same moment twice: never. */
  migration: [from: number, to: number]
  /** How often something goes wrong: 0 in kinds of faults that a seed does not have. */
  rates: Record<Rate, number>
}

/**
 * The highest rates: of each step, but for those of whole processes and servers, which are of each second. In a spell
 * most requests of one process or to one stream have the same fate; in a hang no insert is stored.
 */
const RATES = {
  lostRequest: 0.06, lostAnswer: 0.08, lateRequest: 0.06, lostDelivery: 0.03, stall: 0.004,
  insertError: 0.25, insertSilent: 0.15, queryError: 0.05, lostStatement: 0.03,
  powerCut: 0.08, election: 0.1, disconnect: 0.12, freeze: 0.15, kill: 0.1, restart: 0.08, spell: 0.3, hang: 0.15
} as const

type Rate = keyof typeof RATES

/**
 * Each seed has some of the kinds of faults, few or many, so that not every seed drowns in all of them: few that come
 * often meet in ways in which many that come seldom do not.
 */
export function chooseScenario (seed: number): Scenario {
  const random = createRandom(seed ^ 0x5eed)
  const share = pickOne([0.25, 0.4, 0.6], random)
  const rates = Object.fromEntries(Object.entries(RATES)
    .map(([name, most]) => [name, random() < share ? most * random() : 0])) as Record<Rate, number>
  const healedAfterMs = 6000 + random() * 18_000
  const migratedAt = random() * healedAfterMs
  const isMigrated = random() < 0.3
  const isForgetful = random() < 0.2
  return {
    healedAfterMs,
    // What is stored after its token was forgotten, or its rows were looked up, is stored twice: nobody can know of it.
    longestInsertMs: isMigrated || isForgetful ? 1000 : 119_000 / SHORTER,
    tokenWindow: isForgetful ? 4 : Infinity,
    migration: [migratedAt, isMigrated ? migratedAt + random() * 12_000 : migratedAt],
    updates: random() < 0.4 ? 4 + Math.floor(random() * 30) : 0,
    messages: 4 + Math.floor(random() * 24),
    differentMessages: pickOne([8, 32, 160], random),
    bursts: Array.from({ length: pickOne([0, 1, 3], random) }, () => 1000 + random() * (healedAfterMs - 2000)),
    hasHistory: !isForgetful && random() < 0.4,
    processes: pickOne([1, 2, 2, 2, 3], random),
    ingests: 1 + Math.floor(random() * 2),
    // The inserts of another partition would push tokens out of the window while this one waits.
    partitions: isForgetful || random() < 0.6 ? 1 : 2,
    shards: random() < 0.6 ? 1 : 2,
    rates
  }
}

/** A time in which many messages that are about something have the same fate. */
interface Spell {
  about: unknown
  fate: MessageFate
  until: number
  chance: number
}

/** What becomes of a message from a client. */
export type MessageFate = 'handled' | 'lost' | 'answer lost' | 'late'

/**
 * Fate of an insert: the number of shards that store it, and the answer, an error if there is a code. A silent
 * one is never answered, and stored after so long.
 */
export interface InsertFate {
  shards: number
  code?: number
  silentMs?: number
  /** How long it takes, when it is not a moment. */
  delayMs?: number
}

/** What goes wrong, asked at each step. */
export type Faults = ReturnType<typeof createFaults>

/** Codes of ClickHouse with which an insert may be repeated as it is; the last one when it broke off between nodes. */
const RETRIED = [0, 241, 252, 319, 16]

export function createFaults (world: World, scenario: Scenario) {
  const { rates, healedAfterMs, migration, longestInsertMs, tokenWindow } = scenario
  let spells: Spell[] = []
  let hangsUntil = 0
  const happens = (rate: Rate): boolean => world.now < healedAfterMs && rates[rate] > 0 && world.chance(rates[rate])
  /** The process stands still after a step: between two of them, wherever that is. */
  function mayStall (): void {
    const owner = ownerOfNow()
    if (owner !== null && happens('stall')) freeze(world, owner)
  }
  return {
    happens,
    /** @param stream  That the message is for, if it is for one. */
    fateOf ({ subject }: SentMessage, stream: unknown): MessageFate {
      mayStall()
      if (subject.startsWith('$JS.ACK')) return 'handled'
      const owner = ownerOfNow()
      spells = spells.filter(({ until }) => world.now < until)
      const spell = spells.find(({ about }) => about === owner || about === stream)
      if (spell !== undefined && world.chance(spell.chance)) return spell.fate
      if (happens('lostRequest')) return 'lost'
      if (happens('lostAnswer')) return 'answer lost'
      return happens('lateRequest') ? 'late' : 'handled'
    },
    fateOfStatement (): MessageFate {
      mayStall()
      return happens('lostStatement') ? pickOne(['lost', 'answer lost', 'late'], world.random) : 'handled'
    },
    losesDelivery: () => happens('lostDelivery'),
    fateOfInsert (shards: number): InsertFate {
      mayStall()
      const some = Math.floor(world.between(0, shards + 1))
      if (world.now < hangsUntil) return { shards, delayMs: Math.min(hangsUntil - world.now, longestInsertMs) }
      if (happens('insertSilent')) return { shards: some, silentMs: longestInsertMs * world.random() ** 3 }
      if (!happens('insertError')) return { shards }
      return { code: pickOne(RETRIED, world.random), shards: some }
    },
    failsQuery: () => happens('queryError'),
    /** @param about  A process or a stream. */
    beginSpell (about: unknown): void {
      const fate = pickOne(['lost', 'answer lost', 'late', 'late'] as const, world.random)
      const until = Math.min(healedAfterMs, world.now + world.between(500, 10_000))
      spells.push({ about, fate, until, chance: world.between(0.2, 1) })
    },
    beginHang (): void {
      hangsUntil = Math.min(healedAfterMs, world.now + world.between(500, 20_000))
      world.log(`inserts hang until ${hangsUntil.toFixed(0)}`)
    },
    // Of several servers, one after the other.
    isMigrating: () => world.now >= migration[0] && world.now < migration[1] && Math.floor(world.now / 700) % 2 === 0,
    tokenWindow
  }
}

/** How long a process stands still, in milliseconds: others take it for dead after 6 s, and its leases end after 4. */
const FREEZES: readonly (readonly [from: number, to: number])[] =
  [[500, 4000], [4000, 7000], [6000, 12_000], [8000, 40_000]]

/** A process stands still for a time. */
export function freeze (world: World, process: VirtualProcess): void {
  const ms = world.between(...pickOne(FREEZES, world.random))
  process.frozenUntil = Math.max(process.frozenUntil, world.now + ms)
  world.log(`${process.name} is frozen for ${ms.toFixed(0)}`)
}
