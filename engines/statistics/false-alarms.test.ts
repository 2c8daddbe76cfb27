import t from 'tap'
import { rankPosteriors } from './bayesian.ts'
import { buildGammaPosterior } from './posterior.ts'
import { buildSamples, type Sample, type VariantStatistics } from './variant-statistics.ts'
import { compareSequentially } from './sequential.ts'
import { createRandom, expose, type Random, runFixedTest, type Scenario, scenarios } from './testing/simulate-people.ts'

/** `npm run test:long` for the larger numbers, which tell 4 % from 5 %. The seeds are fixed in both. */
const IS_LONG = process.env.MILLRACE_TEST_LONG === '1'
const EXPERIMENTS = IS_LONG ? 2_000 : 300
const UNEVEN_SPLITS = IS_LONG ? 6_000 : 1_000
/** Of 5 %: beyond so many standard deviations lies one time in a hundred. */
const DEVIATIONS = 2.6
const LOOKS = 20
const PERSONS_PER_LOOK = 100

interface Look {
  pValue: number | null
  sequential: number
}

for (const [seed, scenario] of Object.values(scenarios).entries()) {
  t.test(`A/A, ${scenario.name}: false alarms are as rare as promised, sequentially also at 20 looks`, async (t) => {
    const random = createRandom(seed + 1)
    const alarms = { atTheEnd: 0, atAnyLook: 0, sequentiallyAtAnyLook: 0 }
    for (let experiment = 0; experiment < EXPERIMENTS; experiment++) {
      const looks = runExperiment(scenario, random)
      if ((looks.at(-1)?.pValue ?? 1) < 0.05) alarms.atTheEnd++
      if (looks.some(({ pValue }) => pValue !== null && pValue < 0.05)) alarms.atAnyLook++
      if (looks.some(({ sequential }) => sequential < 0.05)) alarms.sequentiallyAtAnyLook++
    }

    t.ok(isOneInTwenty(alarms.atTheEnd, EXPERIMENTS), `${alarms.atTheEnd} of ${EXPERIMENTS} at the end`)
    t.ok(alarms.sequentiallyAtAnyLook < 0.05 * EXPERIMENTS, `${alarms.sequentiallyAtAnyLook} of ${EXPERIMENTS} sequentially`)
    // The simulation can tell: watching the fixed-horizon p-value daily gives false alarms several times as often.
    if (scenario.kind === 'count') return
    t.ok(alarms.atAnyLook > 0.15 * EXPERIMENTS, `${alarms.atAnyLook} of ${EXPERIMENTS} when watched without correction`)
  })
}

for (const [seed, scenario] of [scenarios.rareCounts, scenarios.unevenCounts, scenarios.evenCounts].entries()) {
  t.test(`A/A split 900 to 100, ${scenario.name}: the chance to be best is as seldom above 0.95 as below 0.05`, async (t) => {
    const random = createRandom(seed + 201)
    const times = { above: 0, below: 0 }
    for (let experiment = 0; experiment < UNEVEN_SPLITS; experiment++) {
      const variants = Object.entries({ control: 900, test: 100 }).map(([key, people]) =>
        expose({ key, exposed: 0, sum: 0 }, people, () => scenario.value(random, scenario.mean)))
      const { samples, dispersion } = buildSamples(scenario.kind, variants, 'estimated')
      const posteriors = (samples as Sample[]).map(({ sum, size }) => buildGammaPosterior(sum, size, dispersion))
      const [, test] = rankPosteriors(posteriors)
      if ((test?.probability ?? 0.5) > 0.95) times.above++
      if ((test?.probability ?? 0.5) < 0.05) times.below++
    }

    for (const [side, count] of Object.entries(times)) {
      t.ok(isOneInTwenty(count, UNEVEN_SPLITS), `${side} in ${count} of ${UNEVEN_SPLITS}`)
    }
  })
}

function isOneInTwenty (count: number, of: number): boolean {
  return Math.abs(count - 0.05 * of) <= DEVIATIONS * Math.sqrt(of * 0.05 * 0.95)
}

/** Two equal variants, looked at LOOKS times; by the exact test of counts, which takes long, only at the end. */
function runExperiment ({ kind, value, mean }: Scenario, random: Random): Look[] {
  let variants: VariantStatistics[] = ['control', 'test'].map((key) => ({ key, exposed: 0, sum: 0 }))
  return Array.from({ length: LOOKS }, (_, look) => {
    variants = variants.map((variant) => expose(variant, PERSONS_PER_LOOK, () => value(random, mean)))
    const [control, test] = buildSamples(kind, variants, 'estimated').samples as [Sample, Sample]
    const sequential = compareSequentially(test, control, { level: 0.95, tunedFor: 5_000 })
    const isTested = kind !== 'count' || look === LOOKS - 1
    return { pValue: isTested ? runFixedTest(kind, variants) : null, sequential: sequential.pValue ?? 1 }
  })
}
