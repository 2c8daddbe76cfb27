import t from 'tap'
import { findOnlyValue, judgeFlag } from './flag-usage-routes.ts'

const NOW = Date.parse('2026-03-31T12:00:00Z')
const DAY_MS = 86_400_000
const PRO = { key: 'plan', type: 'person', operator: 'exact', value: 'pro' }
const variants = (...shares: number[]): object => ({ variants: shares.map((share, n) => ({ key: `v${n}`, rollout_percentage: share })) })

t.test('finds flags that have one value for everybody', async (t) => {
  const cases: Array<[unknown, string | null]> = [
    [{ groups: [] }, 'false'],
    [{ groups: [{}] }, 'true'],
    [{ groups: [{ rollout_percentage: 0 }, { properties: [PRO], rollout_percentage: 0 }] }, 'false'],
    [{ groups: [{ rollout_percentage: 99 }] }, null],
    [{ groups: [{ properties: [PRO] }] }, null],
    [{ groups: [{ properties: [PRO], rollout_percentage: 5 }, {}] }, 'true'],
    [{ groups: [{ properties: [PRO], rollout_percentage: 5 }, {}], early_exit: true }, null],
    [{ groups: [{}], multivariate: variants(50, 50) }, null],
    [{ groups: [{}], multivariate: variants(0, 100) }, 'v1'],
    [{ groups: [{ variant: 'v0' }], multivariate: variants(50, 50) }, 'v0'],
    [{ groups: [{ variant: 'gone' }], multivariate: variants(50, 50) }, null],
    [{ groups: [{ properties: [PRO], variant: 'v1' }, { variant: 'v0' }], multivariate: variants(50, 50) }, null],
    [{ groups: [{}], holdout: { id: 1, exclusion_percentage: 5 } }, null],
    [{ groups: [{}], feature_enrollment: true }, null],
    [{ groups: [{ aggregation_group_type_index: 0 }] }, 'true'],
    [[1], null]
  ]
  for (const [filters, value] of cases) {
    t.equal(findOnlyValue({ active: true, filters }), value, JSON.stringify(filters))
  }
  t.equal(findOnlyValue({ active: false, filters: [1] }), 'false')
})

t.test('a flag is stale after 30 days without a change, with one value or without a call', async (t) => {
  const judge = (days: number, fields: object, calls: number | null): unknown => {
    const updatedAt = new Date(NOW - days * DAY_MS)
    const flag = { filters: { groups: [{ properties: [PRO] }] }, active: true, updated_at: updatedAt, ...fields }
    return judgeFlag(flag, calls === null ? null : { calls, lastMs: calls === 0 ? null : NOW }, { now: NOW })
  }
  const active = { status: 'active', reason: '' }
  const everyone = { filters: { groups: [{}] } }

  t.same(judge(30, {}, 0), { status: 'stale', reason: 'not called for 30 days, unchanged for 30' })
  t.same(judge(29.9, {}, 0), active)
  t.same(judge(400, {}, 1), active)
  t.same(judge(400, {}, null), active, 'nobody says whether it is called')
  t.same(judge(40, everyone, 1000), { status: 'stale', reason: 'on for everyone for 40 days' })
  t.same(judge(40, everyone, null), { status: 'stale', reason: 'on for everyone for 40 days' })
  t.same(judge(29, everyone, 1000), active)
  t.same(judge(31, { active: false }, 1000), { status: 'stale', reason: 'off for everyone for 31 days' })
  t.same(judge(31, { filters: { groups: [] } }, 1000), { status: 'stale', reason: 'false for everyone for 31 days' })
  t.same(judge(31, { filters: { groups: [{}], multivariate: variants(100) } }, 0), { status: 'stale', reason: 'v0 for everyone for 31 days' })
})
