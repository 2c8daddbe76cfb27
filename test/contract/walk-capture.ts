import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { Stack } from '../start-stack.ts'
import { waitFor } from '../support/wait-for.ts'
import type { ContractSystem } from './contract-client.ts'

interface Stored {
  event: string
  distinct_id: string
  timestamp: string
  properties: string
  groups: Record<string, string>
}

/** Sections 4.4, 4.5, and what 2.6, 5, 7 and 8 say about public endpoints. */
export async function walkCapture (t: Test, { stack, client: { post } }: ContractSystem): Promise<void> {
  const apiKey = stack.projectApiKey

  await t.test('2.6 and 4.4 Capture a single event of every kind', async (t) => {
    const kinds: [string, Record<string, unknown>][] = [
      ['$create_alias', { properties: { distinct_id: 'kinds', alias: 'other' } }],
      ['$event', { distinct_id: 'kinds', properties: {} }],
      ['$pageview', { distinct_id: 'kinds', properties: {} }],
      ['$screen', { distinct_id: 'kinds', properties: {} }],
      ['$event with groups', { distinct_id: 'kinds', properties: { $groups: { company: 'acme' } } }],
      ['$groupidentify', { properties: { distinct_id: 'kinds', $group_type: 'company', $group_key: 'acme', $group_set: { size: 3 } } }],
      ['$identify', { distinct_id: 'kinds', $set: { email: 'a@example.com' }, context: {} }],
      ['custom', { properties: { distinct_id: 'kinds', custom_key: 'kept' }, timestamp: '2026-01-02T03:04:05Z' }]
    ]

    for (const [event, fields] of kinds) {
      const answer = await post('/capture/', { api_key: apiKey, event, ...fields })
      t.match(answer, { status: 200, body: { status: 1 } }, event)
    }

    const rows = await storedEvents(stack, 'kinds', kinds.length)
    t.same(rows.map(({ event }) => event).sort(), kinds.map(([event]) => event).sort())
    const custom = rows.find(({ event }) => event === 'custom')
    t.equal(custom?.timestamp, '2026-01-02 03:04:05.000')
    t.match(JSON.parse(custom?.properties ?? ''), { custom_key: 'kept' })
    t.same(rows.find(({ event }) => event === '$event with groups')?.groups, { company: 'acme' })
  })

  await t.test('2.6 A timestamp defaults to the time of receipt', async (t) => {
    const before = Date.now()
    await post('/capture/', { api_key: apiKey, event: 'now', distinct_id: 'receipt' })

    const [row] = await storedEvents(stack, 'receipt', 1)

    const at = Date.parse(`${row?.timestamp.replace(' ', 'T')}Z`)
    t.ok(at >= before - 1000 && at <= Date.now() + 1000)
  })

  await t.test('4.5 Capture a batch', async (t) => {
    const batch = Array.from({ length: 50 }, (_, index) => ({
      event: 'in a batch', properties: { distinct_id: 'batch', index }, ...(index % 2 === 0 ? {} : { timestamp: '2026-01-02T03:04:05Z' })
    }))

    const answer = await post('/batch/', { api_key: apiKey, batch })

    t.match(answer, { status: 200, body: { status: 1 } })
    t.equal((await storedEvents(stack, 'batch', 50)).length, 50)
  })

  await t.test('7 Events without name or distinct_id are dropped, and the answer is still 200', async (t) => {
    const batch = [
      { properties: { distinct_id: 'dropped' } }, { event: '', properties: { distinct_id: 'dropped' } },
      { event: 'no one' }, { event: 'nobody', properties: { distinct_id: '' } },
      { event: 'kept', properties: { distinct_id: 'dropped' } }
    ]

    t.match(await post('/batch/', { api_key: apiKey, batch }), { status: 200, body: { status: 1 } })
    t.match(await post('/capture/', { api_key: apiKey, event: 'no one' }), { status: 200, body: { status: 1 } })

    t.same((await storedEvents(stack, 'dropped', 1)).map(({ event }) => event), ['kept'])
  })

  await t.test('5 and 7 Wrong keys', async (t) => {
    for (const path of ['/capture/', '/batch/', '/decide/']) {
      const body = { event: 'e', distinct_id: 'd', batch: [{ event: 'e', distinct_id: 'd' }] }
      t.match(await post(path, { api_key: 'phc_wrong', ...body }), {
        status: 401, body: { type: 'authentication_error', code: 'invalid_api_key', detail: String }
      }, `${path} with a wrong project key`)
      t.match(await post(path, { api_key: 'phx_wrong', project_id: 1, ...body }), {
        status: 401, body: { type: 'authentication_error', code: 'invalid_personal_api_key' }
      }, `${path} with a wrong personal key`)
      t.match(await post(path, { api_key: stack.personalApiKey, ...body }), {
        status: 400, body: { type: 'validation_error', code: 'invalid_project', attr: 'project_id' }
      }, `${path} with a personal key and no project`)
      t.match(await post(path, { api_key: stack.personalApiKey, project_id: 1, ...body }), { status: 200 }, `${path} with a personal key`)
    }
  })

  await t.test('4 Public endpoints accept POST with and without a trailing slash', async (t) => {
    for (const path of ['/capture', '/capture/', '/batch', '/batch/', '/decide', '/decide/', '/flags', '/flags/']) {
      const body = { api_key: apiKey, event: 'e', distinct_id: 'slashes', batch: [{ event: 'e', distinct_id: 'slashes' }] }
      t.equal((await post(path, body)).status, 200, path)
    }
  })

  await t.test('8 A batch of just under 20 MB is stored, a larger one refused', async (t) => {
    const event = (size: number): object => ({ event: 'large', properties: { distinct_id: 'large', filler: 'x'.repeat(size) } })

    const fits = await post('/batch/', { api_key: apiKey, batch: Array.from({ length: 19 }, () => event(1_000_000)) })
    const tooLarge = await post('/batch/', { api_key: apiKey, batch: Array.from({ length: 21 }, () => event(1_000_000)) })

    t.match(fits, { status: 200, body: { status: 1 } })
    t.match(tooLarge, { status: 413, body: { type: 'validation_error', detail: String } })
    t.equal((await storedEvents(stack, 'large', 19)).length, 19)
  })
}

/** The stored events of a person, once there are as many as expected. */
async function storedEvents (stack: Stack, distinctId: string, count: number): Promise<Stored[]> {
  return await waitFor(async () => {
    const rows = await stack.select<Stored>(
      'SELECT event, distinct_id, timestamp, properties, groups FROM events WHERE distinct_id = {id:String} ORDER BY timestamp', { id: distinctId })
    return rows.length >= count && rows
  }) as Stored[]
}

/** Section 4.6 with 9: flags in every version of the answer. Expects that the project has no other flags. */
export async function walkDecide (t: Test, { stack, client: { call, post } }: ContractSystem): Promise<void> {
  await t.test('4.6 and 9 Evaluate feature flags in every version', async (t) => {
    const filters = (variants: string[]): object => ({
      groups: [{ properties: [], rollout_percentage: 100 }],
      ...(variants.length === 0
        ? {}
        : { multivariate: { variants: variants.map((key) => ({ key, rollout_percentage: 100 / variants.length })) } }),
      payloads: { true: '{"a": 1}', only: '"text"' }
    })
    await stack.sql`INSERT INTO feature_flags ${stack.sql([
      { project_id: 1, key: 'on', filters: stack.sql.json(filters([]) as never) },
      { project_id: 1, key: 'off', filters: stack.sql.json({ groups: [{ properties: [], rollout_percentage: 0 }] }) },
      { project_id: 1, key: 'many', filters: stack.sql.json(filters(['only']) as never) },
      { project_id: 1, key: 'paid', filters: stack.sql.json({ groups: [{ properties: [{ key: 'plan', value: 'pro', operator: 'exact', type: 'person' }] }] }) }
    ] as never)}`
    const decide = async (query: string, body: object = {}): Promise<any> =>
      (await post(`/decide/${query}`, { api_key: stack.projectApiKey, distinct_id: randomUUID(), ...body })).body
    await waitFor(async () => (await decide('?v=2')).featureFlags.on === true)

    for (const query of ['', '?v=1', '?v=2', '?v=3']) {
      const body = await decide(query)
      t.equal(typeof body.config.enable_collect_everything, 'boolean', `config ${query}`)
      t.equal(typeof body.editorParams, 'object', `editorParams ${query}`)
      t.equal(typeof body.isAuthenticated, 'boolean', `isAuthenticated ${query}`)
      t.ok(['gzip', 'lz64'].every((name) => body.supportedCompression.includes(name)), `supportedCompression ${query}`)
    }
    for (const query of ['', '?v=1']) t.same((await decide(query)).featureFlags.sort(), ['many', 'on'], `v1 is an array of keys ${query}`)
    t.match((await decide('?v=2')).featureFlags, { on: true, many: 'only' }, 'v2 has variants')
    const v3 = await decide('?v=3', { person_properties: { plan: 'pro' }, groups: { company: 'acme' }, group_properties: { company: {} } })
    t.match(v3.featureFlags, { on: true, many: 'only', off: false, paid: true }, 'v3 has flags that are false, and takes overrides')
    t.match(v3, { featureFlagPayloads: { on: /.+/, many: /text/ }, errorComputingFlags: false })
    t.equal((await decide('?v=3')).featureFlags.paid, false)
    t.match((await decide('?v=4')).flags, { on: { enabled: true }, many: { variant: 'only' } })
    for (const query of ['?v=1', '?v=2', '?v=1&config=true', '']) {
      t.match((await post(`/flags/${query}`, { api_key: stack.projectApiKey, distinct_id: 'd' })).status, 200, `flags ${query}`)
    }
    t.match(await call(t, 'GET', `/flags/definitions?token=${stack.projectApiKey}`), { status: 200, body: { flags: { length: 4 } } })
  })
}
