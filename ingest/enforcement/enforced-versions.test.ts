import t, { type Test } from 'tap'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { createLogger } from '../../platform/logger.ts'
import { createMetrics } from '../../platform/metrics.ts'
import { openKeys } from '../../platform/directory/open-keys.ts'
import { createReadKeys } from '../../platform/directory/read-keys.ts'
import { createReadEnforced } from './read-projects.ts'
import { reportEnforced } from './enforced-versions.ts'

const { sql, url: databaseUrl } = await createTestPostgres(t)
await sql`INSERT INTO projects (id, name) VALUES (1, 'one'), (2, 'two')`

const logger = createLogger({ component: 'test', level: 'silent' })

const NAMES = ['schemas_enforced', 'schemas_fingerprint', 'rules_enforced', 'rules_fingerprint', 'keys_age_seconds'] as const

type Figures = Record<typeof NAMES[number], number>

/** What a process says of itself that reads what it enforces, as ingest does. */
async function startProcess (t: Test, now: () => number = Date.now): Promise<() => Promise<Figures>> {
  const metrics = createMetrics('ingest')
  const { keys, close } = openKeys({
    sql, databaseUrl, withOwners: false, readProjects: createReadEnforced(sql, logger),
    maxWaitMs: 5000, now, logger, metrics
  })
  t.teardown(close)
  reportEnforced(metrics, keys, now)
  await keys.ready
  const read = async (name: string): Promise<number> => {
    const { values } = await metrics.registry.getSingleMetric(`millrace_ingest_${name}`)!.get()
    return values.reduce((sum, { value }) => sum + value, 0)
  }
  return async () =>
    Object.fromEntries(await Promise.all(NAMES.map(async (name) => [name, await read(name)]))) as Figures
}

async function addSchema (projectId: number, event: string, mode = 'observe'): Promise<number> {
  const [row] = await sql<{ id: number }[]>`
    INSERT INTO event_schemas (project_id, event, mode, version) VALUES (${projectId}, ${event}, ${mode}, 2) RETURNING id`
  for (const version of [1, 2]) {
    await sql`INSERT INTO event_schema_versions (schema_id, version, schema) VALUES (${row!.id}, ${version}, '{}')`
  }
  await sql`UPDATE event_schemas SET active_version = 1 WHERE id = ${row!.id}`
  return row!.id
}

async function addRule (name: string, position: number): Promise<void> {
  const [row] = await sql<{ id: number }[]>`INSERT INTO event_rules (project_id, name, position) VALUES (2, ${name}, ${position}) RETURNING id`
  await sql`INSERT INTO event_rule_versions (rule_id, version, definition) VALUES (${row!.id}, 1, '{"actions":[{"type":"drop"}]}')`
  await sql`UPDATE event_rules SET active_version = 1 WHERE id = ${row!.id}`
}

t.test('processes that enforce the same have the same fingerprints, and each change another one', async (t) => {
  const [one, other] = [await startProcess(t), await startProcess(t)]
  t.match(await one(), { schemas_enforced: 0, schemas_fingerprint: 0, rules_enforced: 0, rules_fingerprint: 0 }, 'nothing is enforced')
  const seen = { schemas: new Set([0]), rules: new Set([0]) }
  let changed = 0

  /** Both processes follow a change, and agree on a state that was not there before. */
  async function follow (kind: 'schemas' | 'rules', enforced: number, change: () => Promise<unknown>): Promise<void> {
    await change()
    changed++
    const figures = await waitFor(async () => {
      const [here, there] = [await one(), await other()]
      const fresh = here[`${kind}_fingerprint`]
      return fresh === there[`${kind}_fingerprint`] && !seen[kind].has(fresh) && here[`${kind}_enforced`] === enforced && here
    })
    seen[kind].add(figures[`${kind}_fingerprint`])
    t.ok(Number.isSafeInteger(figures[`${kind}_fingerprint`]), String(changed))
  }

  let id = 0
  await follow('schemas', 1, async () => { id = await addSchema(1, 'paid') })
  await follow('schemas', 1, async () => await sql`UPDATE event_schemas SET active_version = 2 WHERE id = ${id}`)
  await follow('schemas', 1, async () => await sql`UPDATE event_schemas SET mode = 'reject' WHERE id = ${id}`)
  await follow('schemas', 2, async () => await addSchema(2, 'paid'))
  await follow('schemas', 1, async () => await sql`UPDATE event_schemas SET active_version = NULL WHERE id = ${id}`)
  await follow('rules', 1, async () => await addRule('a', 1))
  await follow('rules', 2, async () => await addRule('b', 2))
  await follow('rules', 2, async () => await sql`UPDATE event_rules SET position = 3 WHERE name = 'a'`)

  t.same({ ...await (await startProcess(t))(), keys_age_seconds: 0 }, { ...await one(), keys_age_seconds: 0 }, 'one that starts later agrees')
})

t.test('a version that a process does not understand is not what it enforces', async (t) => {
  const process = await startProcess(t)
  const before = await process()
  await sql`INSERT INTO event_schema_versions (schema_id, version, schema) SELECT id, 3, '{"unheardOf": 1}' FROM event_schemas WHERE project_id = 2`
  await sql`UPDATE event_schemas SET version = 3, active_version = 3 WHERE project_id = 2`
  await addRule('c', 9)

  await waitFor(async () => (await process()).rules_enforced === before.rules_enforced + 1)
  t.equal((await process()).schemas_fingerprint, before.schemas_fingerprint, 'what it had')
  t.not((await (await startProcess(t))()).schemas_fingerprint, before.schemas_fingerprint, 'one that never had it differs')
})

t.test('how long ago a process read what it enforces is known', async (t) => {
  let now = Date.now()
  const process = await startProcess(t, () => now)
  now += 100_000

  t.equal((await process()).keys_age_seconds, 100)
})

t.test('a key is read with what was active before it, however slow a reading is', async (t) => {
  const { sql } = await createTestPostgres(t)
  await sql`INSERT INTO projects (id, name) VALUES (1, 'a')`
  const readKeys = createReadKeys(sql, { withOwners: false, readProjects: createReadEnforced(sql, logger) })

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
