import { buildSamples, type MetricKind, type Sample, type VariantStatistics } from '../variant-statistics.ts'
import { testConditionalCounts, testTwoProportions, testWelch } from '../frequentist.ts'

/** Uniform random numbers above 0 and below 1. */
export type Random = () => number

/**
 * A seeded generator (xoshiro128**, Blackman and Vigna 2018), so that a simulation always comes out the same. Smaller
 * ones with 32 bits of state repeat themselves within one simulation here.
 */
export function createRandom (seed: number): Random {
  // Four variables, not an array: a simulation draws tens of millions.
  let [a, b, c, d] = [seed | 0, 0x9e3779b9 | 0, 0x243f6a88, 0xb7e15162 | 0] as [number, number, number, number]
  const next = () => {
    const result = Math.imul(rotate(Math.imul(b, 5), 7), 9) >>> 0
    const shifted = b << 9
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= shifted
    d = rotate(d, 11)
    return (result + 0.5) / 0x100000000
  }
  // Seeds that differ in one bit need some rounds to drift apart.
  for (let round = 0; round < 20; round++) next()
  return next
}

function rotate (bits: number, by: number): number {
  return (bits << by) | (bits >>> (32 - by))
}

/** The value of one person, whose mean is `mean`. */
type PersonValue = (random: Random, mean: number) => number

/** Converts or not. */
const converts: PersonValue = (random, mean) => random() < mean ? 1 : 0

/** Events of people who all send at the same rate (Knuth's method, for small means). */
const poissonEvents: PersonValue = (random, mean) => {
  const limit = Math.exp(-mean)
  let events = 0
  for (let product = random(); product > limit; product *= random()) events++
  return events
}

/** Events of busy and quiet people: Poisson at exponential rates, that is geometric; variance = mean (1 + mean). */
const unevenEvents: PersonValue = (random, mean) => Math.floor(Math.log(random()) / Math.log(mean / (1 + mean)))

/** The same of one person in ten; the others send none: variance = mean (1 + 19 mean). */
const rareEvents: PersonValue = (random, mean) => random() < 0.1 ? unevenEvents(random, 10 * mean) : 0

/** Money: log-normal with a long tail (sigma 1, so a coefficient of variation of 1.3). */
const spends: PersonValue = (random, mean) => {
  const normal = Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random())
  return mean * Math.exp(normal - 0.5)
}

/** Adds people to a variant's sums (Welford's algorithm). */
export function expose (
  variant: VariantStatistics, people: number, value: () => number
): VariantStatistics & { squaredDeviations: number } {
  let { exposed, sum, squaredDeviations = 0 } = variant
  for (let i = 0; i < people; i++) {
    const x = value()
    const difference = exposed === 0 ? 0 : x - sum / exposed
    exposed++
    sum += x
    squaredDeviations += difference * difference * (exposed - 1) / exposed
  }
  return { key: variant.key, exposed, sum, squaredDeviations }
}

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
  rareCounts: { name: 'counts of a busy tenth', kind: 'count', value: rareEvents, mean: 1 },
  sums: { name: 'skewed sums', kind: 'sum', value: spends, mean: 20 }
} satisfies Record<string, Scenario>

/** p-value of the fixed-horizon test of two variants alone, without the costly rest of an analysis. */
export function runFixedTest (kind: MetricKind, variants: readonly VariantStatistics[]): number {
  const { samples, dispersion } = buildSamples(kind, variants)
  const [control, test] = samples as [Sample, Sample]
  const outcome = kind === 'funnel'
    ? testTwoProportions(test, control, 0.95)
    : kind === 'count' ? testConditionalCounts(test, control, 0.95, dispersion) : testWelch(test, control, 0.95)
  return outcome.pValue ?? 1
}
