import { randomUUID } from 'node:crypto'
import { type Test } from 'tap'
import { waitFor } from '../support/wait-for.ts'
import { type ContractSystem } from './contract-client.ts'

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
