import t from 'tap'
import { assertNear } from '../testing/assert-near.ts'
import { studentHalfWidth, studentTwoSided } from './student.ts'

t.test('the t distribution agrees with the critical values of the tables', async (t) => {
  // NIST/SEMATECH e-Handbook, 1.3.6.7.2 (12.706, 4.303, 2.571, 2.228, 2.042); digits from R: qt(0.975, df)
  const widths = [1, 2, 5, 10, 30, 120].map((degrees) => studentHalfWidth(0.95, degrees))
  assertNear(t, widths, [12.7062047361747, 4.30265272974946, 2.57058183563631, 2.22813885198627, 2.04227245630124,
    1.97993040508242])
})

t.test('two-sided tails of the t distribution agree with R', async (t) => {
  // R 4.2: 2 * pt(-2.5, 7)
  assertNear(t, studentTwoSided(-2.5, 7), 0.0409922185857529)
  t.equal(studentTwoSided(0, 7), 1)
})

t.test('with very many degrees of freedom the t distribution is the normal one', async (t) => {
  assertNear(t, studentTwoSided(1.96, 2e9), 2 * 0.0249978951482204)
  assertNear(t, studentTwoSided(1.96, 9.9e5), studentTwoSided(1.96, 1.1e6), 1e-5)
  assertNear(t, studentHalfWidth(0.95, 2e9), 1.95996398454005)
})
