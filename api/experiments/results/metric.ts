import { type MetricKind } from '../statistics/variant-statistics.ts'

/** What an experiment measures, read from what a client wrote. */
export interface Metric {
  name: string
  kind: MetricKind
  /** In order for a funnel; exactly one for the other kinds. */
  steps: MetricStep[]
  /** Property whose values are added up or averaged; null for funnels and counts. */
  property: string | null
  /** How long after the first exposure an event counts, in seconds; 0 is without an end. */
  windowSeconds: number
}

export interface MetricStep {
  /** Name of the event; null is any. */
  event: string | null
  where: PropertyCondition[]
}

/** Operators of conditions, as in feature flags. */
export const OPERATORS = [
  'exact', 'is_not', 'icontains', 'not_icontains', 'regex', 'not_regex', 'gt', 'gte', 'lt', 'lte', 'is_set', 'is_not_set'
] as const

export type Operator = typeof OPERATORS[number]

export interface PropertyCondition {
  key: string
  operator: Operator
  /** Texts to compare with, one of which must fit; empty for `is_set` and `is_not_set`. */
  values: string[]
}

/** The mask of steps has 32 bits; nobody reads longer funnels. */
export const MAX_STEPS = 20
