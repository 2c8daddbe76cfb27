import t, { type Test } from 'tap'
import { type Adjusted, adjustMeans, type Layout } from './adjust-means.ts'
import { testWelch } from './frequentist.ts'
import { type Moments, pairsOf } from './moments.ts'
import { compareSequentially } from './sequential.ts'
import { quantilePlainly } from './testing/adjust-plainly.ts'
import { createRandom, type Random } from './testing/simulate-people.ts'
import type { Sample } from './variant-statistics.ts'

/** `npm run test:long` for the larger numbers, which tell 94 % from 95 %. The seeds are fixed in both. */
const IS_LONG = process.env.MILLRACE_TEST_LONG === '1'
const EXPERIMENTS = IS_LONG ? 2_000 : 100
const LOOKS = 8
const PEOPLE_A_LOOK = 75
/** Standard deviations that one simulation in a hundred exceeds. */
const DEVIATIONS = 2.6

const normal = (random: Random): number => Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random())

/** Correlation of a person's values before and after the exposure. */
const RHO = 0.8

interface Scenario {
  name: string
  layout: Layout
  /** The values of a person, whose effect is a factor; the truth of the relative lift is that factor less 1. */
  person: (random: Random, factor: number) => number[]
  quantile?: number
  /** Values above it are cut, as by a percentile of both arms. */
  cap?: number
}

/** An autocorrelated amount: after and before; a third joined late and has no past. */
function amounts (random: Random): [after: number, before: number, has: number] {
  const habit = normal(random)
  const after = 10 + 3 * (RHO * habit + Math.sqrt(1 - RHO ** 2) * normal(random))
  return random() < 1 / 3 ? [after, 0, 0] : [after, 10 + 3 * habit, 1]
}

const logNormal = (random: Random): number => Math.exp(normal(random))

const PLAIN: Layout = { isRatio: false, covariates: 0 }

const SCENARIOS: Scenario[] = [
  {
    name: 'CUPED, a third joined late',
    layout: { isRatio: false, covariates: 2 },
    person: (random, factor) => {
      const [after, before, has] = amounts(random)
      return [factor * after, before, has]
    }
  },
  {
    name: 'CUPED of conversions',
    layout: { isRatio: false, covariates: 1 },
    person: (random, factor) => {
      const had = random() < 0.3
      return [Number(random() < (had ? 0.6 : 0.1) * factor), Number(had)]
    }
  },
  {
    name: 'a ratio',
    layout: { isRatio: true, covariates: 0 },
    person: (random, factor) => {
      const sessions = 1 + Math.floor(logNormal(random) * 2)
      return [factor * sessions * (1 + 0.5 * normal(random)), sessions]
    }
  },
  {
    name: 'a ratio with CUPED',
    layout: { isRatio: true, covariates: 3 },
    person: (random, factor) => {
      const [sessions, earlier, rate] = [1 + Math.floor(3 * random()), Math.floor(3 * random()), 5 + normal(random)]
      const [after, before] = [sessions, earlier].map((times) => times * (rate + 0.5 * normal(random)))
      return [factor * after!, sessions, before!, earlier, Number(earlier > 0)]
    }
  },
  {
    name: 'retention',
    layout: { isRatio: true, covariates: 0 },
    person: (random, factor) => {
      const started = random() < 0.7
      return [Number(started && random() < 0.3 * factor), Number(started)]
    }
  },
  { name: 'a winsorized sum', layout: PLAIN, person: (random) => [logNormal(random)], cap: 5 },
  { name: 'the median', layout: PLAIN, person: (random, factor) => [factor * logNormal(random)], quantile: 0.5 },
  { name: 'the 90th percentile', layout: PLAIN, person: (random, factor) => [factor * logNormal(random)], quantile: 0.9 }
]

/** By sums of squares: the values are small, and this is another way than the queries'. */
function sumUp (rows: readonly number[][]): Moments {
  const size = rows[0]?.length ?? 0
  const sums = Array<number>(size).fill(0)
  const pairs = pairsOf(size)
  const crossed = pairs.map(() => 0)
  for (const row of rows) {
    for (const [i, value] of row.entries()) sums[i] = sums[i]! + value
    for (const [at, [i, j]] of pairs.entries()) crossed[at] = crossed[at]! + row[i]! * row[j]!
  }
  const products = pairs.map(([i, j], at) => crossed[at]! - sums[i]! * sums[j]! / rows.length)
  return { people: rows.length, sums, products }
}

function estimate (arms: readonly number[][][], { layout, quantile, cap = Infinity }: Scenario): (Adjusted | null)[] {
  if (quantile !== undefined) return arms.map((rows) => quantilePlainly(rows.map(([y = 0]) => y), quantile))
  const cut = arms.map((rows) => rows.map(([y = 0, ...rest]) => [Math.min(y, cap), ...rest]))
  return adjustMeans(cut.map(sumUp), layout).estimates
}

function sample (arms: readonly number[][][], scenario: Scenario): [control: Sample, test: Sample] {
  const [control, test] = estimate(arms, scenario).map((adjusted, i): Sample =>
    ({ size: arms[i]!.length, sum: 0, ...adjusted!, cautiousSquaredError: adjusted!.squaredError }))
  return [control!, test!]
}

function isWithin (t: Test, count: number, share: number, name: string): void {
  const reach = DEVIATIONS * Math.sqrt(EXPERIMENTS * share * (1 - share))
  t.ok(Math.abs(count - share * EXPERIMENTS) <= reach, `${name}: ${count} of ${EXPERIMENTS}`)
}

for (const [seed, scenario] of SCENARIOS.entries()) {
  t.test(`${scenario.name}: false alarms, peeking, and intervals with the planted lift`, async (t) => {
    const random = createRandom(900 + seed)
    const seen = { alarms: 0, alarmsAtAnyLook: 0, held: 0 }
    const draw = (factor: number, people: number): number[][] =>
      Array.from({ length: people }, () => scenario.person(random, factor))
    for (let experiment = 0; experiment < EXPERIMENTS; experiment++) {
      const arms: [number[][], number[][]] = [[], []]
      let isAlarmed = false
      for (let look = 0; look < LOOKS; look++) {
        for (const arm of arms) arm.push(...draw(1, PEOPLE_A_LOOK))
        const [control, test] = sample(arms, scenario)
        isAlarmed ||= (compareSequentially(test, control, { level: 0.95, tunedFor: 5_000 }).pValue ?? 1) < 0.05
        if (look === LOOKS - 1 && (testWelch(test, control, 0.95).pValue ?? 1) < 0.05) seen.alarms++
      }
      if (isAlarmed) seen.alarmsAtAnyLook++
      if (scenario.cap !== undefined) continue
      const [control, test] = sample([arms[0], draw(1.1, LOOKS * PEOPLE_A_LOOK)], scenario)
      const interval = testWelch(test, control, 0.95).relativeInterval
      if (interval !== null && interval[0] <= 0.1 && interval[1] >= 0.1) seen.held++
    }
    isWithin(t, seen.alarms, 0.05, 'false alarms at the end')
    t.ok(seen.alarmsAtAnyLook <= 0.05 * EXPERIMENTS, `at any of ${LOOKS} looks: ${seen.alarmsAtAnyLook} of ${EXPERIMENTS}`)
    if (scenario.cap !== undefined) return
    isWithin(t, seen.held, 0.95, 'intervals with the planted lift')
  })
}

t.test('CUPED shortens intervals by 1 - rho^2, and by the share of people with a past', async (t) => {
  const random = createRandom(77)
  for (const share of [1, 0.5]) {
    const rows = Array.from({ length: 20_000 }, () => {
      const habit = normal(random)
      const [after, before] = [10 + 3 * (RHO * habit + Math.sqrt(1 - RHO ** 2) * normal(random)), 10 + 3 * habit]
      return random() < share ? [after, before, 1] : [after, 0, 0]
    })
    const arms = [rows.slice(0, 10_000), rows.slice(10_000)].map(sumUp)
    const { varianceReduction, estimates } = adjustMeans(arms, { isRatio: false, covariates: 2 })
    const alone = [rows.slice(0, 10_000), rows.slice(10_000)].map((half) => sumUp(half.map((row) => row.slice(0, 1))))
    const plain = adjustMeans(alone, PLAIN)
    t.ok(Math.abs(varianceReduction! - share * RHO ** 2) < 0.02, `${varianceReduction} of ${share * RHO ** 2}`)
    t.ok(Math.abs(estimates[0]!.squaredError / plain.estimates[0]!.squaredError - (1 - share * RHO ** 2)) < 0.03)
  }
})

t.test('quantile errors agree with the bootstrap', async (t) => {
  const random = createRandom(78)
  for (const quantile of [0.5, 0.9]) {
    const values = Array.from({ length: 1_000 }, () => logNormal(random))
    const resample = (): number[] => values.map(() => values[Math.floor(random() * values.length)]!)
    const draws = Array.from({ length: 300 }, () => quantilePlainly(resample(), quantile).mean)
    const mean = draws.reduce((sum, each) => sum + each, 0) / draws.length
    const spread = Math.sqrt(draws.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (draws.length - 1))
    const { squaredError } = quantilePlainly(values, quantile)
    t.ok(Math.abs(Math.sqrt(squaredError) / spread - 1) < 0.25, `${Math.sqrt(squaredError)} and ${spread} at ${quantile}`)
  }
})
