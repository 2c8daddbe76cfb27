import t from 'tap'
import { createLogger } from '../../../platform/logger.ts'
import { createMetrics } from '../../../platform/metrics.ts'
import { createTestPostgres } from '../../../test/support/test-stores.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { addFlags, ask, createTestDecide, type TestDecide } from '../../testing/create-test-decide.ts'
import { createDefinitionCache } from './definition-cache.ts'

/** Waits until the endpoints answer a flag with a value. They read only announced changes, see `NEVER_MS`. */
async function answers (decide: TestDecide, key: string, value: unknown): Promise<void> {
  await waitFor(async () => {
    const { body } = await ask(decide, '/decide/?v=3', { distinct_id: 'u1', person_properties: { plan: 'pro' } })
    return body.featureFlags[key] === value
  }, { everyMs: 10 })
}

t.test('a change of a flag is announced, even one written by SQL', async (t) => {
  const decide = await createTestDecide(t)
  const { sql, projectId } = decide

  await sql`INSERT INTO feature_flags ${sql({ project_id: projectId, key: 'f', filters: sql.json({ groups: [{}] }) })}`
  await t.resolves(answers(decide, 'f', true))
  await sql`UPDATE feature_flags SET active = false`
  await t.resolves(answers(decide, 'f', false))
  await sql`UPDATE feature_flags SET deleted = true`
  await t.resolves(answers(decide, 'f', undefined))
})

t.test('a project that is known has its flags, however slow a reading is', async (t) => {
  const { sql, url } = await createTestPostgres(t)
  const { promise: unlocked, resolve: unlock } = Promise.withResolvers<undefined>()
  const { promise: locked, resolve: onLocked } = Promise.withResolvers<undefined>()
  const locking = sql.begin(async (tx) => {
    await tx`LOCK TABLE projects IN ACCESS EXCLUSIVE MODE`
    onLocked(undefined)
    await unlocked
    await tx`INSERT INTO projects (id, name) VALUES (77, 'new')`
    await tx`INSERT INTO feature_flags ${tx({ project_id: 77, key: 'f', filters: tx.json({ groups: [{}] }) })}`
  })
  await locked

  const cache = createDefinitionCache({ sql, databaseUrl: url, logger: createLogger({ component: 'test', level: 'silent' }), metrics: createMetrics('api') })
  t.teardown(cache.stop)
  await waitFor(async () => (await sql`SELECT FROM pg_locks WHERE NOT granted AND relation = 'projects'::regclass`).length > 0)
  unlock(undefined)
  await locking
  await cache.ready

  t.equal(await cache.knows(77), 'known')
  t.ok(cache.get(77).positions.has('f'))
})

t.test('a change of what flags refer to is announced too', async (t) => {
  const decide = await createTestDecide(t)
  const { sql, projectId } = decide
  const pro = sql.json({ type: 'AND', values: [{ key: 'plan', value: 'pro', type: 'person' }] })
  const [cohort] = await sql<Array<{ id: number }>>`
    INSERT INTO cohorts ${sql({ project_id: projectId, name: 'pro', filters: pro })} RETURNING id`
  await addFlags(decide, [
    { key: 'in', filters: { groups: [{ properties: [{ key: 'id', type: 'cohort', value: cohort!.id }] }] } }
  ])
  await t.resolves(answers(decide, 'in', true))

  await sql`UPDATE cohorts SET filters = ${sql.json({ type: 'AND', values: [{ key: 'plan', value: 'x', type: 'person' }] })}`

  await t.resolves(answers(decide, 'in', false))
})

t.test('a new project key works at once, a rotated one until it expires', async (t) => {
  const decide = await createTestDecide(t)
  const { sql, projectId } = decide
  const status = async (apiKey: string): Promise<number> =>
    (await ask(decide, '/decide', { api_key: apiKey, distinct_id: 'u1' })).status

  await sql`INSERT INTO project_api_keys (api_key, project_id, kind) VALUES ('team-key', ${projectId}, 'team')`
  await waitFor(async () => await status('team-key') === 200)
  await sql`UPDATE project_api_keys SET expires_at = now() - interval '1 second' WHERE api_key = 'team-key'`
  await waitFor(async () => await status('team-key') === 401)

  t.equal(await status(decide.projectKey), 200)
})

t.test('a stored flag with malformed filters fails alone', async (t) => {
  const decide = await createTestDecide(t)
  const malformed = [
    5, 'text', [], { groups: 'x' }, { groups: [null] }, { groups: [{ properties: { a: 1 } }] },
    { groups: [{ properties: [{ key: 'a', value: 1, operator: 'sounds_like' }] }] }, { groups: [{ rollout_percentage: {} }] },
    { groups: [{}], multivariate: { variants: [{}] } }, { groups: [{ properties: [{ type: 'cohort', value: 12345 }] }] }
  ]
  await addFlags(decide, [...malformed.map((filters, i) => ({ key: `bad-${i}`, filters })), { key: 'good' }])

  const { status, body } = await ask(decide, '/flags/?v=2', { distinct_id: 'u1' })

  t.equal(status, 200)
  t.equal(body.errorsWhileComputingFlags, true)
  for (let i = 0; i < malformed.length; i++) {
    t.match(body.flags[`bad-${i}`], { enabled: false, failed: true, reason: { code: 'malformed_filters' } }, `${i}`)
  }
  t.match(body.flags.good, { enabled: true })
  const legacy = await ask(decide, '/decide/?v=3', { distinct_id: 'u1' })
  t.same(legacy.body.featureFlags, { good: true })
  t.equal(legacy.body.errorComputingFlags, true)
})
