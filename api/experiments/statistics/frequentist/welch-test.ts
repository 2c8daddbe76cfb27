import { type Sample } from '../build-samples.ts'
import { studentHalfWidth, studentTwoSided } from '../distributions/student.ts'
import { ratioInterval } from '../ratio-interval.ts'
import { type TestOutcome } from './test-outcome.ts'

/** Welch's t test with the degrees of freedom of Satterthwaite. R: `t.test(x, y)`. */
export function testWelch (variant: Sample, baseline: Sample, level: number): TestOutcome {
  const squaredError = variant.squaredError + baseline.squaredError
  if (squaredError === 0) {
    return {
      test: 'welch-t', statistic: null, degreesOfFreedom: null, pValue: null, absoluteInterval: null, relativeInterval: null
    }
  }
  // Shares instead of squares of the errors: those underflow for quantities below 1e-80.
  const share = variant.squaredError / squaredError
  const degreesOfFreedom = 1 / (share ** 2 / (variant.size - 1) + (1 - share) ** 2 / (baseline.size - 1))
  const difference = variant.mean - baseline.mean
  const error = Math.sqrt(squaredError)
  const statistic = difference / error
  const t = studentHalfWidth(level, degreesOfFreedom)
  return {
    test: 'welch-t',
    statistic,
    degreesOfFreedom,
    pValue: studentTwoSided(statistic, degreesOfFreedom),
    absoluteInterval: [difference - t * error, difference + t * error],
    relativeInterval: ratioInterval(variant, baseline, t)
  }
}
