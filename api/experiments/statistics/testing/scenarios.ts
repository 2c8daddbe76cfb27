import { type MetricKind } from '../variant-statistics.ts'
import { converts, type PersonValue, poissonEvents, spends, unevenEvents } from './simulate-people.ts'

/** A metric as the simulations see it. */
export interface Scenario {
  name: string
  kind: MetricKind
  value: PersonValue
  /** Of one person of the control group. */
  mean: number
}

/** Every kind of metric, and both kinds of counts: of people who are alike, and of people who are not. */
export const scenarios = {
  conversions: { name: 'conversions', kind: 'funnel', value: converts, mean: 0.1 },
  evenCounts: { name: 'Poisson counts', kind: 'count', value: poissonEvents, mean: 0.4 },
  unevenCounts: { name: 'uneven counts', kind: 'count', value: unevenEvents, mean: 1.5 },
  sums: { name: 'skewed sums', kind: 'sum', value: spends, mean: 20 }
} satisfies Record<string, Scenario>
