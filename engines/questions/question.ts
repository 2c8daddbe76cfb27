/** What a question with a picture is made of: stored as JSON, compiled to SQL by the other files here. */
import type { PropertyCondition } from '../operators/property-conditions.ts'

export const INTERVALS = ['hour', 'day', 'week', 'month'] as const
export type Interval = typeof INTERVALS[number]

/** Measures of the numbers that a property has. */
export const NUMBER_MEASURES = ['sum', 'average', 'median', 'p90', 'min', 'max'] as const
export const MEASURES = ['events', 'people', 'per_person', 'groups', ...NUMBER_MEASURES] as const
export type Measure = typeof MEASURES[number]

export type Question = Trend | Funnel | Retention | Activity | Paths

/** Days in the project's time zone: a number of units up to the present one, or from one day to another, inclusive. */
export type AskedRange =
  | { last: number, unit: Exclude<Interval, 'hour'>, whole: boolean }
  | { from: string, to: string }

interface Asked {
  range: AskedRange
  /** Whether events count whose user agent says that it is a program. */
  includeBots: boolean
  /** Null: as the project's weeks do. */
  weekStarts: 'monday' | 'sunday' | null
}

/**
 * Which events count: their name, null for any, and conditions on properties of them or of their persons, all of which
 * must hold.
 */
export interface EventChoice {
  event: string | null
  where: PropertyCondition[]
}

/** A property that splits people or events by value: the largest values, and the rest together; or cohorts. */
export interface Breakdown {
  /** Whose property; of a person, as it is now. `cohort`: each is a part, and a person counts in all of theirs. */
  type: 'event' | 'person' | 'cohort'
  property: string
  cohorts: readonly number[]
  limit: number
  /** Of the parts of a funnel: the most people first, or by the share that got to the last step. */
  order: 'people' | 'worst' | 'best'
  /**
   * In which parts of a funnel a person counts: that of the first event with which they entered, or those of all their
   * events that are a step.
   */
  attribution: 'first' | 'any'
  /** Values are those that somebody is shown who does not see addresses of mail. */
  isMasked?: boolean
}

/**
 * How often something happened.
 *
 * - `events`: events sent; one that stands for a sample counts as many as it stands for.
 * - `people`: different persons, merges followed. Their total is that of different persons of the whole range.
 * - `per_person`: events for each of these persons.
 * - `groups`: different groups of a type, which `property` names.
 * - `sum`, `average`, `median`, `p90`, `min`, `max`: of the numbers that a property has, also in texts; events with
 *   anything else are left out. `median` and `p90` are the smallest number that so much of the weight does not exceed.
 */
export interface Trend extends Asked {
  kind: 'trend'
  interval: Interval
  series: Array<EventChoice & { measure: Measure, property: string | null }>
  breakdown: Breakdown | null
  /** Also the previous period: of the same length, and as far as the present one has come. */
  compare: boolean
  /** One more line, computed of the series: `A / B`. Then the values of a breakdown are those of the first series. */
  formula: string | null
}

/**
 * How many persons got how far.
 *
 * Only events of the range count. A person is counted once, at the farthest step ever reached from one first step
 * within the window. `in_order`: each step is another event, not before the one of the step before; events of the same
 * millisecond count in the order of the steps. `any_order`: that many different steps within the window. The time to a
 * step is that until it was first reached, from the latest first step that led there.
 *
 * Only steps in order can exclude events: none of `exclude` lies between the events of these steps. Another way of the
 * same person may lead on.
 */
export interface Funnel extends Asked {
  kind: 'funnel'
  steps: EventChoice[]
  exclude: Exclusion[]
  windowSeconds: number
  order: 'in_order' | 'any_order'
  breakdown: Breakdown | null
}

/** An event that must not happen after step `from` and before step `to`, counted from 1. */
export interface Exclusion extends EventChoice { from: number, to: number }

/**
 * How many persons came back.
 *
 * `first`: a person belongs to the day, week or month of the first start event ever stored of them, and is left out
 * when that lies before the range, or when they are known from a time whose events retention removed. `any`: to each
 * in which they have one. Period k is the k-th calendar period after; a person returned in it with one returning event.
 */
export interface Retention extends Asked {
  kind: 'retention'
  interval: Exclude<Interval, 'hour'>
  cohort: 'first' | 'any'
  /** `on_or_after`: who returns later counts in every period until then. */
  returns: 'on' | 'on_or_after'
  start: EventChoice
  returning: EventChoice
}

/**
 * Who is active, and how regularly. The range begins with a whole period.
 *
 * `lifecycle`: in each period, persons who are `new` (active for the first time), `returning` (also in the period
 * before), `resurrecting` (earlier, but not in the period before) and `dormant` (in the period before, but not in it).
 * `stickiness`: persons by the number of periods of the range in which they are active.
 */
export interface Activity extends Asked {
  kind: 'lifecycle' | 'stickiness'
  interval: Exclude<Interval, 'hour'>
  activity: EventChoice
}

/**
 * Which events follow one another.
 *
 * Events of a person with at most `gapSeconds` between neighbours are one run. In each run, one path leads `from` its
 * first `anchor` on, or back in time from its last one. Events of one name in a row are one; of events of the same
 * millisecond, that with the lesser name comes first.
 */
export interface Paths extends Asked {
  kind: 'paths'
  anchor: EventChoice
  direction: 'from' | 'to'
  /** Longest path, in events beside the anchor. */
  steps: number
  /** Names of the events that count beside the anchor; null: any. */
  events: string[] | null
  /** Of any events, how many names stand for themselves: those of most people who did the anchor. The rest are one. */
  nodes: number
  /** Edges of fewer people are left out. */
  minPeople: number
  gapSeconds: number
}

/** Bounds of a question. */
export const QUESTION_LIMITS = {
  series: 5, steps: 10, exclusions: 5, breakdown: 25, nodes: 50, edges: 100, buckets: 1000, cohorts: 100,
  conditions: 20,
  /** Of a definition as JSON, in characters: its query stays below the megabyte that ClickHouse parses. */
  length: 32_768,
  /** Longest window of a funnel or gap of a path, in seconds: a year. */
  window: 31_536_000
} as const
