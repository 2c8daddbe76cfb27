import t from 'tap'
import { assertNear } from './testing/assert-near.ts'
import { ratioInterval } from './ratio-interval.ts'

t.test('at the ends of the interval the scaled baseline is just the width away', async (t) => {
  const variant = { mean: 12, squaredError: 0.25 }
  const baseline = { mean: 10, squaredError: 0.16 }

  const distances = ratioInterval(variant, baseline, 1.96)?.map((lift) =>
    (12 - (1 + lift) * 10) / Math.sqrt(0.25 + (1 + lift) ** 2 * 0.16)) ?? null

  assertNear(t, distances, [1.96, -1.96])
})

t.test('the interval holds zero exactly when that of the difference does', async (t) => {
  const baseline = { mean: 10, squaredError: 0.16 }
  const edge = 10 + 1.96 * Math.sqrt(0.25 + 0.16)

  assertNear(t, ratioInterval({ mean: edge, squaredError: 0.25 }, baseline, 1.96)?.[0] ?? null, 0, 1e-12)
})

t.test('far from zero it is the delta method', async (t) => {
  // Var(v / b) = Var(v) / b^2 + v^2 Var(b) / b^4
  const [low, high] = ratioInterval({ mean: 1020, squaredError: 0.3 }, { mean: 1000, squaredError: 0.2 }, 1.96) ?? []
  const half = 1.96 * Math.sqrt(0.3 / 1e6 + 1020 ** 2 * 0.2 / 1e12)

  assertNear(t, [low ?? 0, high ?? 0], [0.02 - half, 0.02 + half], 1e-4)
})

t.test('there is no ratio to what may be zero, and no interval without variance', async (t) => {
  t.equal(ratioInterval({ mean: 1, squaredError: 0.1 }, { mean: 2, squaredError: 0.5 }, 1.96), null)
  t.equal(ratioInterval({ mean: 1, squaredError: 0.1 }, { mean: -2, squaredError: 0.01 }, 1.96), null)
  t.equal(ratioInterval({ mean: 1, squaredError: 0 }, { mean: 2, squaredError: 0 }, 1.96), null)
})

t.test('tiny and huge quantities neither underflow nor overflow', async (t) => {
  for (const unit of [1e-120, 1e120]) {
    const scaled = (mean: number, error: number) => ({ mean: mean * unit, squaredError: error * unit * unit })
    assertNear(t, ratioInterval(scaled(12, 0.25), scaled(10, 0.16), 1.96),
      ratioInterval(scaled(12, 0.25), scaled(10, 0.16), 1.96))
    t.ok(ratioInterval(scaled(12, 0.25), scaled(10, 0.16), 1.96)?.every(Number.isFinite))
  }
})
