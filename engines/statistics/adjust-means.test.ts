import t from 'tap'
import { adjustMeans } from './adjust-means.ts'
import { alike, combine, type Moments, NOBODY } from './moments.ts'
import { adjustPlainly, type Person } from './testing/adjust-plainly.ts'
import { assertNear } from './testing/assert-near.ts'
import { createRandom, type Random } from './testing/simulate-people.ts'

const KEYS = ['control', 'test', 'other']

const normal = (random: Random): number => Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random())

/** What the query sums up: the values, those before the exposure, and whether there are any. */
function sumUp (people: readonly Person[], key: string): Moments {
  const rows = people.filter(({ variant }) => variant === key)
    .map(({ values, before }) => alike(1, [...values, ...before, Number(before.some((value) => value !== 0))]))
  const halves = [rows.slice(0, rows.length >> 1), rows.slice(rows.length >> 1)].map((half) =>
    half.reduce(combine, NOBODY))
  return halves.reduce(combine)
}

t.test('500 random data sets: equal to a regression of each person', async (t) => {
  const random = createRandom(4)
  for (let set = 0; set < 500; set++) {
    const isRatio = set % 2 === 1
    const scale = 10 ** Math.floor(random() * 9 - 3)
    const share = [0, 0.3, 0.8, 1][set % 4]!
    const keys = KEYS.slice(0, 2 + set % 2)
    const people = Array.from({ length: 160 + Math.floor(random() * 300) }, (_, i): Person => {
      const [habit, variant] = [Math.exp(normal(random)), keys[i % keys.length]!]
      const of = (): number => scale * habit * Math.exp(normal(random) / 2)
      const hasPast = random() < share
      const values = isRatio ? [of(), 1 + Math.floor(habit * 3)] : [random() < 0.2 ? 0 : of() + 5 * scale]
      return { variant, values, before: values.map(() => hasPast ? of() : 0) }
    })
    const { estimates } = adjustMeans(keys.map((key) => sumUp(people, key)), { isRatio, covariates: isRatio ? 3 : 2 })
    const wanted = adjustPlainly(people, keys, isRatio)
    assertNear(t, estimates.flatMap((each) => [each!.mean, each!.squaredError]), wanted.flatMap(({ mean, squaredError }) => [mean, squaredError]), 1e-9, `set ${set}`)
  }
})

t.test('nobody with a past, few people, and a ratio by nothing', async (t) => {
  const keys = KEYS.slice(0, 2)
  const build = (_: unknown, i: number): Person => ({ variant: keys[i % 2]!, values: [i % 7], before: [0] })
  const people = Array.from({ length: 200 }, build)
  const sums = keys.map((key) => sumUp(people, key))
  t.equal(adjustMeans(sums, { isRatio: false, covariates: 2 }).varianceReduction, null)
  const few = people.slice(0, 40).map((person, i) => ({ ...person, before: [i] }))
  const sumsOfFew = keys.map((key) => sumUp(few, key))
  t.equal(adjustMeans(sumsOfFew, { isRatio: false, covariates: 2 }).varianceReduction, null)
  const divided = [{ people: 9, sums: [4, 0], products: [2, 0, 0] }, { people: 1, sums: [4, 1], products: [0, 0, 0] }]
  t.same(adjustMeans(divided, { isRatio: true, covariates: 0 }).estimates, [null, null])
})
