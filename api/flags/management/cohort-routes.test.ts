/** Cohorts that clients make, and flags that name them. */
import t from 'tap'
import { createTestApi } from '../../testing/create-test-api.ts'

const paying = { key: 'plan', value: ['pro'], operator: 'exact', type: 'person' }

t.test('a cohort is created, named by a flag and another cohort, and deleted when nothing names it', async (t) => {
  const { call } = await createTestApi(t)
  const inner = await call('POST', '~/cohorts', { name: 'Paying', filters: { type: 'AND', values: [paying] } })
  t.match(inner, { status: 201, body: { name: 'Paying', is_static: false, filters: { type: 'AND', values: [paying] } } })
  const { id } = inner.body
  const outer = await call('POST', '~/cohorts', {
    name: 'Others', filters: { properties: { type: 'OR', values: [{ type: 'cohort', key: 'id', value: id, negation: true }] } }
  })
  t.equal(outer.status, 201)
  t.match(await call('GET', '~/cohorts'), { status: 200, body: { results: [{ name: 'Others' }, { id, name: 'Paying' }] } })

  t.match(await call('POST', '~/cohorts', { name: ' ', filters: { properties: {} } }), { status: 400, body: { attr: 'name', detail: 'name must not be blank.' } })
  t.match(await call('DELETE', `~/cohorts/${id}`), { status: 400, body: { code: 'has_dependents' } })
  t.equal((await call('DELETE', `~/cohorts/${outer.body.id}`)).status, 204)
  const flag = await call('POST', '~/feature_flags', {
    key: 'for-paying', filters: { groups: [{ properties: [{ key: 'id', type: 'cohort', value: id }] }] }
  })
  t.equal(flag.status, 201)
  t.match(await call('DELETE', `~/cohorts/${id}`), { status: 400, body: { detail: /for-paying/ } })
  await call('DELETE', `~/feature_flags/${flag.body.id}`)
  t.equal((await call('DELETE', `~/cohorts/${id}`)).status, 204)
  t.equal((await call('DELETE', `~/cohorts/${id}`)).status, 404)
})

t.test('a cohort that cannot be evaluated is refused with its reason', async (t) => {
  const { call } = await createTestApi(t)
  for (const [values, detail] of [
    [[{ type: 'behavioral', key: 'paid', value: 'performed_event' }], /behavioral/],
    [[{ type: 'cohort', key: 'id', value: 77 }], /does not exist/],
    [[{ ...paying, operator: 'resembles' }], /no operator "resembles"/]
  ] as const) {
    t.match(await call('POST', '~/cohorts', { name: 'c', filters: { type: 'AND', values } }), { status: 400, body: { attr: 'filters', detail } })
  }
})
