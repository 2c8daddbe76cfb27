import { randomUUID } from 'node:crypto'
import t from 'tap'
import { hashIdentifier } from '../../../engines/flags/rollout-hash.ts'
import { createPersonalKey } from '../../projects/personal-keys.ts'
import { createTestApi, type TestAnswer, type TestApi } from '../../testing/create-test-api.ts'
import { waitFor } from '../../../test/support/wait-for.ts'

const shared = await createTestApi(t)

const VARIANTS = [{ key: 'control', rollout_percentage: 50 }, { key: 'test', rollout_percentage: 50 }]

async function test (api: TestApi, body: object): Promise<TestAnswer> {
  return await api.call('POST', '~/feature_flags/test', body)
}

async function createFlag (api: TestApi, key: string, filters: object, rest: object = {}): Promise<void> {
  const { status, body } = await api.call('POST', '~/feature_flags/', { key, filters, ...rest })
  if (status !== 201) throw new Error(JSON.stringify(body))
}

async function createPerson ({ sql, projectId }: TestApi, distinctId: string, properties: object): Promise<void> {
  const [person] = await sql<Array<{ id: number }>>`
    INSERT INTO persons ${sql({ project_id: projectId, uuid: randomUUID(), properties: sql.json(properties as never) })} RETURNING id`
  await sql`INSERT INTO person_distinct_ids ${sql({ project_id: projectId, person_id: person!.id, distinct_id: distinctId })}`
}

function personIs (key: string, value: unknown, operator = 'exact'): object {
  return { key, value, operator, type: 'person' }
}

t.test('says of each filter what it saw and where that came from', async (t) => {
  const api = await shared.inNewProject()
  await createPerson(api, 'ann', { plan: 'pro', age: 40 })
  await createFlag(api, 'base', { groups: [{ properties: [], rollout_percentage: 100 }] })
  await createFlag(api, 'asked', {
    groups: [
      { properties: [personIs('plan', ['free']), personIs('country', 'DE'), personIs('language', 'de')] },
      { properties: [personIs('age', 18, 'gt'), { key: 'base', type: 'flag', value: true, operator: 'flag_evaluates_to' }], rollout_percentage: 100 }
    ]
  })

  const { status, body } = await test(api, { distinct_id: 'ann', person_properties: { country: 'DE' }, flag_keys: ['asked'] })

  t.equal(status, 200)
  t.match(body.results, [{
    key: 'asked', active: true, value: true, failed: false, reason: { code: 'condition_match', condition_index: 1, description: 'Matched condition set 2' },
    conditions: [
      {
        result: 'no_condition_match',
        value: null,
        filters: [
          { type: 'person', key: 'plan', operator: 'exact', value: ['free'], seen: 'pro', source: 'stored', passes: false },
          { key: 'country', seen: 'DE', source: 'sent', passes: true },
          { key: 'language', source: 'missing', passes: false }
        ]
      },
      {
        result: 'condition_match',
        value: true,
        filters: [
          { key: 'age', seen: 40, source: 'stored', passes: true },
          { type: 'flag', key: 'base', seen: true, source: 'flag', passes: true }
        ]
      }
    ]
  }])
})

t.test('answers what /flags answers, with the places that decide', async (t) => {
  const api = await shared.inNewProject()
  await createFlag(api, 'half', { groups: [{ properties: [], rollout_percentage: 50 }], multivariate: { variants: VARIANTS } })
  await createFlag(api, 'off', { groups: [{ properties: [] }] }, { active: false })

  for (let i = 0; i < 20; i++) {
    const distinctId = `visitor-${i}`
    const { body: { results: [half, off] } } = await test(api, { distinct_id: distinctId })
    const places = [100 * hashIdentifier('half', distinctId, ''), 100 * hashIdentifier('half', distinctId, 'variant')] as const

    t.match(half.conditions[0].rollout, {
      percentage: 50, identifier: distinctId, place: places[0], variant_place: places[1]
    })
    const flags = await waitFor(async () => {
      const payload = { token: api.projectKey, distinct_id: distinctId }
      const response = await api.app.inject({ method: 'POST', url: '/flags?v=2', payload })
      const answer = response.json<{ flags: Record<string, { enabled: boolean, variant?: string, reason: object }> }>()
      return answer.flags?.off !== undefined && answer.flags
    })
    t.equal(half.value, flags.half!.variant ?? flags.half!.enabled)
    t.match(flags.half!.reason, half.reason)
    t.match(off, { value: false, reason: { code: 'flag_disabled' }, conditions: [{ result: 'condition_match' }] })
  }
})

t.test('a draft takes the place of the saved flag, or is refused with its field', async (t) => {
  const api = await shared.inNewProject()
  await createFlag(api, 'color', { groups: [{ properties: [], rollout_percentage: 0 }] })
  const draft = { key: 'color', filters: { groups: [{ properties: [], rollout_percentage: 100 }] } }

  t.match(await test(api, { distinct_id: 'me' }), { body: { results: [{ key: 'color', value: false }] } })
  t.match(await test(api, { distinct_id: 'me', draft }), { body: { results: [{ key: 'color', value: true }] } })
  t.match(await test(api, { distinct_id: 'me', draft: { ...draft, key: 'new' } }), { body: { results: [{ key: 'color' }, { key: 'new', value: true }] } })
  t.match(await test(api, { distinct_id: 'me', draft: { key: 'color', filters: { groups: [{ rollout_percentage: 101 }] } } }), {
    status: 400, body: { attr: 'draft__filters__groups__0__rollout_percentage' }
  })
  t.match(await api.call('GET', '~/feature_flags/?limit=5'), { body: { count: 1 } }, 'nothing is saved')
})

t.test('shows stored values only to keys that may read persons', async (t) => {
  const api = await shared.inNewProject()
  await createPerson(api, 'ann', { plan: 'pro' })
  await createFlag(api, 'pro', { groups: [{ properties: [personIs('plan', 'pro')] }] })
  const { key } = await createPersonalKey(api.sql, {
    email: api.user.email, label: 'flags', scopes: ['feature_flag:read'], projectIds: null, expiresAt: null
  })
  await api.keys.refresh()

  const response = await api.app.inject({
    method: 'POST', url: `/api/projects/${api.projectId}/feature_flags/test`, headers: { authorization: `Bearer ${key}` },
    payload: { distinct_id: 'ann', person_properties: { plan: 'sent' } }
  })
  const stored = await api.app.inject({
    method: 'POST', url: `/api/projects/${api.projectId}/feature_flags/test`, headers: { authorization: `Bearer ${key}` }, payload: { distinct_id: 'ann' }
  })

  t.match(response.json(), { results: [{ conditions: [{ filters: [{ source: 'sent', seen: 'sent' }] }] }] })
  const [{ conditions: [{ filters: [filter] }] }] = stored.json<{ results: any }>().results
  t.match(filter, { source: 'not_read', passes: null })
  t.notOk('seen' in filter)
})

t.test('refuses invalid requests, and stores nothing of them', async (t) => {
  const api = await shared.inNewProject()
  for (const [body, attr] of [
    [{}, 'distinct_id'], [{ distinct_id: '' }, 'distinct_id'], [{ distinct_id: 'a', groups: { company: {} } }, 'groups__company'],
    [{ distinct_id: 'a', person_properties: 'x' }, 'person_properties'], [{ distinct_id: 'a', draft: {} }, 'draft__key']
  ] as const) {
    t.match(await test(api, body), { status: 400, body: { attr } }, JSON.stringify(body))
  }
  t.match(await test(api, { distinct_id: 'a' }), { status: 200, body: { results: [] } })
})
