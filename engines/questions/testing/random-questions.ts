import { pickOne, type Random } from '../../../test/support/random.ts'
import type { PlainQuestion } from './plain-question.ts'
import { FORMULAS } from './plain-trend.ts'

/** Zones with the days on which their clocks change: at midnight in Cairo and Santiago, and never in Kolkata. */
export const ZONES = [
  { timezone: 'Europe/Berlin', changes: ['2026-03-29', '2026-10-25'] },
  { timezone: 'Africa/Cairo', changes: ['2026-04-24', '2026-10-29'] },
  { timezone: 'America/Santiago', changes: ['2026-04-05', '2026-09-06'] },
  { timezone: 'Asia/Kolkata', changes: ['2026-05-10'] }
] as const

export const EVENTS = ['seen', 'cart', 'paid', "o'dd\\"] as const
export const PLANS: readonly unknown[] = ['pro', 'Free', "o'x\\n", 'ß', 5, '5', true, null, undefined, undefined]

const DAY_MS = 86_400_000

/** One stored row; `at` and `receivedAt` in Unix milliseconds. */
export function randomEvent (random: Random, changes: readonly string[]) {
  const around = Date.parse(pickOne(changes, random))
  const near = random() < 0.3 ? 1 : random() < 0.6 ? 6 : 35
  const exact = Math.floor(around + (random() * 2 - 1) * near * DAY_MS)
  // Many at the same millisecond, and at the edges of hours and days.
  const round = (ms: number): number => Math.round(exact / ms) * ms
  const at = pickOne([exact, exact, round(3_600_000), round(3_600_000) - 1, round(600_000)], random)
  const amount = pickOne([1, 2.5, -3, 0.25, '12.5', '7', 'many', undefined, 1e6], random)
  return {
    // A third comes late, by up to three weeks: questions go by when an event happened, never by when it came.
    receivedAt: at + (random() < 0.3 ? Math.floor(random() * 21 * DAY_MS) : 0),
    event: pickOne(EVENTS, random), distinctId: `d${Math.floor(random() * 40)}`, at, isBot: random() < 0.06,
    weight: random() < 0.1 ? 4 : 1, groups: randomGroups(random),
    properties: { ...randomPlan(random), ...amount === undefined ? {} : { amount } }
  }
}

function randomGroups (random: Random): Record<string, string> {
  return random() < 0.4 ? {} : { company: `c${Math.floor(random() * 6)}` }
}

function randomPlan (random: Random): { plan?: unknown } {
  const plan = pickOne(PLANS, random)
  return plan === undefined ? {} : { plan }
}

/** What a person has. */
export function randomPersonProperties (random: Random): Record<string, unknown> {
  return { ...randomPlan(random), ...random() < 0.5 ? { amount: Math.floor(random() * 20) - 5 } : {} }
}

interface RandomCondition { type?: string, key: string, operator: string, value?: unknown }

const CONDITIONS: readonly RandomCondition[] = [
  { key: 'plan', operator: 'exact', value: ['PRO', 5] }, { key: 'plan', operator: 'is_not', value: 'free' },
  { key: 'plan', operator: 'is_set' }, { key: 'plan', operator: 'is_not_set' },
  { key: 'amount', operator: 'gt', value: 2 }, { key: 'amount', operator: 'between', value: [0, 10] },
  { key: 'plan', operator: 'icontains', value: 'r' }, { key: 'plan', operator: 'not_regex', value: '^p' },
  { key: 'plan', operator: 'exact', value: "o'x\\n" }
]

export const randomCondition = (random: Random): RandomCondition => pickOne(CONDITIONS, random)

/** Cohorts that questions name. */
export const COHORTS = [11, 12, 13] as const

function randomChoice (random: Random, mayBeAny = true): { event: string | null, where: RandomCondition[] } {
  const where = (): RandomCondition => random() < 0.25
    ? { type: 'cohort', key: 'id', operator: pickOne(['in', 'not_in'], random), value: pickOne(COHORTS, random) }
    : { ...randomCondition(random), ...random() < 0.4 ? { type: 'person' } : {} }
  const event = mayBeAny && random() < 0.15 ? null : pickOne(EVENTS, random)
  return { event, where: random() < 0.3 ? [where(), ...random() < 0.3 ? [where()] : []] : [] }
}

export function randomQuestion (random: Random, changes: readonly string[]): { question: PlainQuestion, now: number } {
  const around = Date.parse(pickOne(changes, random))
  const day = (offset: number): string => new Date(around + offset * DAY_MS).toISOString().slice(0, 10)
  const back = Math.floor(random() * 12)
  const kind = pickOne(['trend', 'trend', 'funnel', 'funnel', 'retention', 'lifecycle', 'stickiness', 'paths', 'paths'], random)
  const interval = pickOne(kind === 'trend' ? ['hour', 'day', 'day', 'week', 'month'] : ['day', 'week', 'month'], random)
  const compare = random() < 0.4
  const unit = pickOne(interval === 'hour' ? ['day', 'week'] : ['day', 'week', 'month'], random)
  const range = random() < 0.5
    ? { from: day(-back), to: day(Math.floor(random() * 9)) }
    : { last: 1 + Math.floor(random() * (unit === 'day' ? 12 : unit === 'week' ? 3 : 2)), unit, whole: random() < 0.3 }
  const now = around + Math.floor((random() * 4 - 1) * DAY_MS)
  const measure = () => {
    const measure = pickOne(['events', 'people', 'sum', 'average', 'median', 'p90', 'min', 'max', 'per_person', 'groups'], random)
    return { ...randomChoice(random), measure, property: measure === 'groups' ? 'company' : 'amount' }
  }
  const order = pickOne(['in_order', 'in_order', 'any_order'], random)
  const steps = order === 'in_order'
    ? Array.from({ length: 2 + Math.floor(random() * 4) }, () => randomChoice(random))
    : EVENTS.slice(0, 2 + Math.floor(random() * 3)).map((event) => ({ ...randomChoice(random, false), event }))
  const series = Array.from({ length: 1 + Math.floor(random() * 3) }, measure)
  const exclude = order === 'in_order' && random() < 0.5 ? [randomExclusion(random, steps.length), ...random() < 0.3 ? [randomExclusion(random, steps.length)] : []] : []
  return {
    now,
    question: {
      formula: series.length === 2 && random() < 0.6 ? pickOne(Object.keys(FORMULAS), random) : null,
      kind, range, interval, compare, order, steps, include_bots: random() < 0.3, week_starts: pickOne(['monday', 'sunday'], random),
      series,
      breakdown: random() < 0.15 ? { type: 'cohort', property: '', limit: COHORTS.length, cohorts: COHORTS.slice(Math.floor(random() * 3)) } : random() < 0.5 ? { ...random() < 0.3 && { type: 'person' }, property: pickOne(['plan', 'plan', 'amount'], random), limit: pickOne([1, 3, 25], random) } : null,
      attribution: pickOne(['first', 'any'], random),
      window: pickOne([{ value: 10, unit: 'minute' }, { value: 5, unit: 'hour' }, { value: 3, unit: 'day' }, { value: 60, unit: 'day' }], random),
      start: randomChoice(random), returning: randomChoice(random), cohort: pickOne(['first', 'any'], random),
      returns: pickOne(['on', 'on_or_after'], random), activity: randomChoice(random), exclude, paths: randomPaths(random)
    }
  }
}

function randomExclusion (random: Random, steps: number) {
  const from = 1 + Math.floor(random() * (steps - 1))
  return { ...randomChoice(random), from, to: from + 1 + Math.floor(random() * (steps - from)) }
}

function randomPaths (random: Random): PlainQuestion['paths'] {
  return {
    anchor: randomChoice(random), isBackward: random() < 0.4, steps: pickOne([1, 2, 3, 5], random),
    names: random() < 0.3 ? EVENTS.slice(0, 1 + Math.floor(random() * 4)) : null, nodes: pickOne([1, 2, 3, 50], random),
    minPeople: pickOne([1, 1, 3], random),
    gap: pickOne([{ value: 10, unit: 'minute' }, { value: 5, unit: 'hour' }, { value: 2, unit: 'day' }, { value: 60, unit: 'day' }], random)
  }
}
