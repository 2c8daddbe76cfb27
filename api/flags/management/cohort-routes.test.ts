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
  const last = { kind: 'trend', version: 1, series: [{ event: 'paid', where: [{ type: 'cohort', value: 77, operator: 'in' }] }] }
  for (const [values, attr, detail] of [
    [[{ type: 'cohort', key: 'id', value: 77 }], '__0__value', /Cohort 77 does not exist/],
    [[{ type: 'cohort', key: 'id', value: 1e300 }], '__0__value', /does not exist/],
    [[{ ...paying, operator: 'resembles' }], '__0__operator', /must be one of/],
    [[paying, { ...paying, operator: 'is_date_after', value: 'soon' }], '__1__value', /must be a date/],
    [[{ ...paying, operator: 'semver_gt', value: 'x.2.0' }], '__0__value', /must be a version/],
    [[{ ...paying, operator: 'icontains', value: {} }], '__0__value', /must be a string/],
    [[{ ...paying, operator: 'icontains', value: [] }], '__0__value', /must not be empty/],
    [[], '', /non-empty/],
    [[{ type: 'OR', values: [] }], '__0__values', /non-empty/]
  ] as const) {
    t.match(await call('POST', '~/cohorts', { name: 'c', filters: { type: 'AND', values } }), { status: 400, body: { attr: `filters__values${attr}`, detail } }, attr)
  }
  t.match(await call('POST', '~/cohorts', { name: 'c', question: { definition: last, cell: {} }, living: true }), { status: 400, body: { attr: 'question__definition__series__0__where__0__value' } })
  for (const leaf of [{ ...paying, operator: 'is_date_after', value: '-1d' }, { ...paying, operator: 'semver_gt', value: '1.2' }, { ...paying, value: [] }]) {
    t.match(await call('POST', '~/cohorts', { name: 'c', filters: { type: 'AND', values: [leaf] } }), { status: 201 })
  }
  t.match(await call('POST', '~/cohorts', { name: 'Nobody', distinct_ids: [] }), { status: 201, body: { kind: 'list', people: 0, error: '' } })
})

t.test('what names a cohort that the project does not have is refused by the name of its field', async (t) => {
  const { call, inNewProject } = await createTestApi(t)
  const other = await inNewProject()
  const { body: { id: foreign } } = await other.call('POST', '~/cohorts', { name: 'c', filters: { type: 'AND', values: [paying] } })
  const { body: { id: own } } = await call('POST', '~/cohorts', { name: 'c', filters: { type: 'AND', values: [paying] } })
  const member = (value: number) => ({ key: 'id', type: 'cohort', operator: 'in', value })
  const asked = (cohort: number) => ({ kind: 'trend', version: 1, series: [{ event: 'paid', where: [member(cohort)] }] })
  const split = (cohort: number) => ({ kind: 'trend', version: 1, series: [{ event: 'paid' }], breakdown: { type: 'cohort', cohorts: [own, cohort] } })
  const exposure = (cohort: number) => ({ exposure_criteria: { exposure_config: { kind: 'ExperimentEventExposureConfig', event: 'seen', properties: [member(cohort)] } } })
  const { body: question } = await call('POST', '~/questions', { name: 'Asked', definition: asked(own) })
  for (const cohort of [foreign, 7777]) {
    for (const [method, path, body, attr] of [
      ['POST', 'questions', { name: 'q', definition: asked(cohort) }, 'definition__series__0__where__0__value'],
      ['POST', 'questions', { name: 'q', definition: split(cohort) }, 'definition__breakdown__cohorts'],
      ['PATCH', `questions/${question.id}`, { definition: asked(cohort) }, 'definition__series__0__where__0__value'],
      ['POST', 'experiments', { name: 'e', feature_flag_key: 'e', parameters: exposure(cohort) }, 'parameters__exposure_criteria__exposure_config__properties__0__value'],
      ['POST', 'feature_flags', { key: 'f', filters: { groups: [{ properties: [member(cohort)] }] } }, 'filters__groups__0__properties__0__value']
    ] as const) t.match(await call(method, `~/${path}`, body), { status: 400, body: { attr, detail: /does not exist/ } }, `${path} ${attr}`)
  }
  t.match(await call('POST', '~/experiments', { name: 'e', feature_flag_key: 'e', parameters: exposure(own) }), { status: 201 })
  t.match(await call('DELETE', `~/cohorts/${own}`), { status: 400, body: { code: 'has_dependents', detail: /question Asked, the experiment e/ } })
})

t.test('cohorts that name one another many times are refused before they fill the memory', async (t) => {
  const { call } = await createTestApi(t)
  const did = { type: 'behavioral', key: 'paid', value: 'performed_event', time_value: 30, time_interval: 'day' }
  for (const leaf of [did, paying]) {
    let values: object[] = [leaf]
    let answer = await call('POST', '~/cohorts', { name: 'c', filters: { type: 'AND', values } })
    for (let depth = 0; depth < 5 && answer.status === 201; depth++) {
      const { id } = answer.body
      values = [leaf, ...Array.from({ length: 30 }, () => ({ type: 'cohort', key: 'id', value: id }))]
      answer = await call('POST', '~/cohorts', { name: 'c', filters: { type: 'AND', values } })
    }
    t.match(answer, { status: 400, body: { attr: 'filters', detail: /conditions.*, including those of (its|their) cohorts/ } })
  }
})

t.test('what persons did makes a cohort; whatever would not be obeyed is refused by the name of its field', async (t) => {
  const { call, sql, projectId } = await createTestApi(t)
  const did = { type: 'behavioral', key: 'paid', value: 'performed_event', time_value: 30, time_interval: 'day' }
  const { body: cohort, status } = await call('POST', '~/cohorts', { name: 'Payers', filters: { type: 'AND', values: [did, { ...did, key: 'refunded', negation: true }, paying] } })
  t.match({ status, cohort }, { status: 201, cohort: { kind: 'behavior', is_static: false, people: null, as_of: null, error: '' } }, 'unknown is not 0')
  const often = { ...did, value: 'performed_event_multiple', operator: 'gte', operator_value: 3 }
  for (const [leaf, attr] of [
    [{ ...did, value: 'performed_event_sequence' }, 'value'], [{ ...did, event_type: 'actions' }, 'event_type'], [{ ...did, time_value: 0 }, 'time_value'],
    [{ ...did, time_interval: 'quarter' }, 'time_interval'], [{ ...did, explicit_datetime: '-30d' }, 'time_value'], [{ ...did, seq_event: 'seen' }, 'seq_event'],
    [{ ...often, operator: 'between' }, 'operator'], [{ ...often, operator_value: '3' }, 'operator_value'], [{ ...did, operator_value: 2 }, 'operator_value'],
    [{ ...did, negation: 'yes' }, 'negation'], [{ ...did, key: '' }, 'key'], [{ ...did, event_filters: [{ type: 'person', key: 'plan', value: 'pro' }] }, 'event_filters__0__type']
  ] as const) {
    t.match(await call('POST', '~/cohorts', { name: 'c', filters: { type: 'AND', values: [leaf] } }), { status: 400, body: { attr: `filters__values__0__${attr}` } }, attr)
  }
  for (const leaf of [{ ...paying, operator: 'is_date_after', value: '-1' }, { type: 'group', key: 'plan', value: 'pro', group_type_index: 0 }, { type: 'cohort', value: 77 }]) {
    t.match(await call('POST', '~/cohorts', { name: 'c', filters: { type: 'AND', values: [did, leaf] } }), { status: 400, body: { attr: /^filters/ } })
  }
  t.match(await call('POST', `~/cohorts/${cohort.id}/refresh`), { status: 200, body: { id: cohort.id } })
  t.equal((await sql`SELECT FROM cohorts WHERE id = ${cohort.id} AND refresh_requested_at IS NOT NULL`).length, 1)
  t.equal((await call('POST', '~/cohorts/77/refresh')).status, 404)
  const definition = { kind: 'trend', version: 1, series: [{ event: 'seen', where: [{ type: 'cohort', value: cohort.id, operator: 'not_in' }] }] }
  await call('POST', '~/questions', { name: 'By payers', definition })
  await call('POST', '~/feature_flags', { key: 'for-payers', filters: { groups: [{ properties: [{ key: 'id', type: 'cohort', value: cohort.id }] }] } })
  t.match(await call('GET', `~/cohorts/${cohort.id}`), { body: { name: 'Payers', used_by: [{ kind: 'flag', name: 'for-payers' }, { kind: 'question', name: 'By payers' }] } })
  t.match(await call('DELETE', `~/cohorts/${cohort.id}`), { status: 400, body: { code: 'has_dependents' } })

  await sql`WITH p AS (INSERT INTO persons (project_id, uuid) VALUES (${projectId}, gen_random_uuid()) RETURNING id)
    INSERT INTO person_distinct_ids (project_id, distinct_id, person_id) SELECT ${projectId}, given, p.id FROM p, unnest(${['a', 'b', 'x'.repeat(200)]}::text[]) AS given`
  t.match(await call('POST', '~/cohorts', { name: 'List', distinct_ids: ['a', 'b', 'c'] }), { status: 201, body: { kind: 'list', is_static: true, people: 1 } })
  t.match(await call('POST', '~/cohorts', { name: 'Long', distinct_ids: ['x'.repeat(201)] }), { body: { people: 1 } }, 'cut, as ingest cuts it')
  t.match(await call('POST', '~/cohorts', { name: 'l', filters: { values: [paying] }, living: true }), { status: 400, body: { attr: 'living' } })
})
