import t from 'tap'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { createLogger } from '../logger.ts'
import { createReadKeys } from './read-keys.ts'

t.test('a key is read with what was active before it, however slow a reading is', async (t) => {
  const { sql } = await createTestPostgres(t)
  await sql`INSERT INTO projects (id, name) VALUES (1, 'a') ON CONFLICT DO NOTHING`
  const readKeys = createReadKeys(sql, { withOwners: false, logger: createLogger({ component: 'test', level: 'silent' }) })

  const { promise: unlocked, resolve: unlock } = Promise.withResolvers<undefined>()
  const { promise: locked, resolve: onLocked } = Promise.withResolvers<undefined>()
  const locking = sql.begin(async (tx) => {
    await tx`LOCK TABLE project_api_keys IN ACCESS EXCLUSIVE MODE`
    onLocked(undefined)
    await unlocked
    await tx`INSERT INTO project_api_keys (api_key, project_id, kind) VALUES ('phc_new', 1, 'project')`
  })
  await locked
  const reading = readKeys()
  // The reading waits for the keys; whatever it reads beside them it has read by then.
  await waitFor(async () => (await sql`SELECT FROM pg_locks WHERE NOT granted AND relation = 'project_api_keys'::regclass`).length > 0)
  await sql.begin(async (tx) => {
    const [row] = await tx<{ id: number }[]>`INSERT INTO event_rules (project_id, name, position) VALUES (1, 'no clicks', 1) RETURNING id`
    await tx`INSERT INTO event_rule_versions (rule_id, version, definition) VALUES (${row!.id}, 1, ${tx.json({ condition: { type: 'event', value: 'click' }, actions: [{ type: 'drop' }] })})`
    await tx`UPDATE event_rules SET active_version = 1 WHERE id = ${row!.id}`
  })
  unlock(undefined)
  await locking

  const { projectKeys } = await reading
  t.match(projectKeys.get('phc_new')?.project, { id: 1, rules: Object }, 'the rule is older than the key')
})
