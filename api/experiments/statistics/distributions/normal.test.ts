import t from 'tap'
import { assertNear } from '../testing/assert-near.ts'
import { normalCumulative, normalDensity, normalQuantile, normalTwoSided } from './normal.ts'

t.test('the normal distribution agrees with R', async (t) => {
  // R 4.2: pnorm(-c(1, 1.96, 5, 8, 20)), qnorm(0.975), dnorm(0)
  const expected = [0.158655253931457, 0.0249978951482204, 2.86651571879194e-7, 6.22096057427178e-16]
  assertNear(t, [-1, -1.96, -5, -8].map(normalCumulative), expected, 1e-13)
  assertNear(t, normalCumulative(-20), 2.75362411860623e-89)
  assertNear(t, normalQuantile(0.975), 1.95996398454005, 1e-13)
  assertNear(t, normalDensity(0), 0.398942280401433, 1e-13)
  assertNear(t, normalTwoSided(-1.96), 2 * 0.0249978951482204, 1e-13)
})

t.test('the normal distribution stays a probability at any distance', async (t) => {
  for (const z of [38.5, 1e5, 1e200, Infinity]) {
    t.equal(normalCumulative(z), 1)
    t.equal(normalCumulative(-z), 0)
    t.equal(normalTwoSided(z), 0)
  }
})
