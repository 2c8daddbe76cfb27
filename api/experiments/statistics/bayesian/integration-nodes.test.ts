import t from 'tap'
import { assertNear } from '../testing/assert-near.ts'
import { buildIntegrationNodes } from './integration-nodes.ts'

t.test('eight points integrate a polynomial of degree 15 exactly', async (t) => {
  const { points, widths } = buildIntegrationNodes([0, 2])

  const integral = points.reduce((sum, x, i) => sum + x ** 15 * (widths[i] as number), 0)

  assertNear(t, integral, 2 ** 16 / 16, 1e-13)
})

t.test('breakpoints may come in any order and repeat', async (t) => {
  const { points, widths } = buildIntegrationNodes([3, 0, 1, 3, 0])

  t.equal(points.length, 16)
  assertNear(t, widths.reduce((sum, width) => sum + width, 0), 3, 1e-14)
  assertNear(t, points.reduce((sum, x, i) => sum + Math.exp(x) * (widths[i] as number), 0), Math.exp(3) - 1, 1e-12)
})
