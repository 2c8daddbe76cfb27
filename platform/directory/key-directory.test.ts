import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { createLogger } from '../logger.ts'
import { createMetrics } from '../metrics.ts'
import { connectPostgres } from '../postgres/connect-postgres.ts'
import { HttpError } from '../../engines/errors.ts'
import { CAPTURE_SCOPE } from '../../schema/scopes.ts'
import { createKeyDirectory, type KeyDirectory } from './key-directory.ts'
import { openKeys } from './open-keys.ts'
import { createReadKeys, type Project, readProjects, type ReadKeys } from './read-keys.ts'

const logger = createLogger({ component: 'test', level: 'silent' })

const UNKNOWN = { code: 'invalid_api_key' }

interface Setup {
  keys: KeyDirectory
  reads: () => number
  postgres: Awaited<ReturnType<typeof createTestPostgres>>
  clock: { now: number }
  /** What the directory reads from now on; the tables of the test when left out. */
  readBy: (read?: ReadKeys) => void
}

async function createDirectory (t: Test, maxWaitMs = 5000): Promise<Setup> {
  const postgres = await createTestPostgres(t)
  const { sql } = postgres
  await sql`INSERT INTO projects (id, name, anonymize_ips) VALUES (1, 'one', false), (2, 'two', true)`
  await sql`INSERT INTO project_api_keys (api_key, project_id, kind, expires_at) VALUES
    ('phc_one', 1, 'project', NULL), ('team_one', 1, 'team', NULL), ('phc_old', 1, 'project', '2030-01-01T00:00:00Z'),
    ('phc_two', 2, 'project', NULL)`
  await sql`INSERT INTO users (id, email) VALUES (1, 'a@example.com')`
  const hash = (key: string): string => `sha256$${createHash('sha256').update(key).digest('hex')}`
  for (const [key, projects, expires, revoked] of [
    ['phx_all', null, null, null], ['phx_two', [2], null, null], ['phx_old', null, '2030-01-01T00:00:00Z', null],
    ['phx_revoked', null, null, '2026-01-01T00:00:00Z']
  ] as const) {
    await sql`INSERT INTO personal_api_keys (user_id, secure_value, mask_value, project_ids, expires_at, revoked_at)
      VALUES (1, ${hash(key)}, '', ${projects as number[] | null}, ${expires}, ${revoked})`
  }
  const stored = createReadKeys(sql, { withOwners: true, readProjects })
  let read = stored
  let reads = 0
  const clock = { now: Date.UTC(2026, 10, 21) }
  const readKeys: ReadKeys = async () => {
    reads++
    return await read()
  }
  const keys = createKeyDirectory({ readKeys, logger, now: () => clock.now, maxWaitMs })
  return { keys, reads: () => reads, postgres, clock, readBy: (other = stored) => { read = other } }
}

const resolve = async (keys: KeyDirectory, key: string, projectId?: unknown): Promise<Project> =>
  await keys.findProject(key, projectId, CAPTURE_SCOPE)

t.test('project and team keys name their project, from memory after the first reading', async (t) => {
  const { keys, reads } = await createDirectory(t)

  t.same(await resolve(keys, 'phc_one'), { id: 1, anonymizeIps: false })
  t.same(await resolve(keys, 'team_one'), { id: 1, anonymizeIps: false })
  t.same(await resolve(keys, 'phc_two'), { id: 2, anonymizeIps: true })
  t.notOk(keys.findProject('phc_two', undefined, CAPTURE_SCOPE) instanceof Promise)
  t.equal(reads(), 1)
})

t.test('unknown, expired and missing keys are refused', async (t) => {
  const { keys, clock } = await createDirectory(t)

  t.same(await resolve(keys, 'phc_old'), { id: 1, anonymizeIps: false })
  clock.now = Date.UTC(2031, 0)
  for (const key of ['', 'phc_none', 'phc_old', 'x'.repeat(100), '\0']) {
    await t.rejects(resolve(keys, key), { status: 401, code: 'invalid_api_key', type: 'authentication_error' })
  }
})

t.test('a personal key writes to the project that is named, if it may', async (t) => {
  const { keys, clock } = await createDirectory(t)
  const invalidProject = { status: 400, code: 'invalid_project', type: 'validation_error', attr: 'project_id' }

  t.equal((await resolve(keys, 'phx_all', 2)).id, 2)
  t.equal((await resolve(keys, 'phx_all', '1')).id, 1)
  t.equal((await resolve(keys, 'phx_two')).id, 2)
  for (const named of [undefined, null, 3, '3', 'one', 1.5, {}, '']) await t.rejects(resolve(keys, 'phx_all', named), invalidProject)
  await t.rejects(resolve(keys, 'phx_two', 1), invalidProject)
  for (const key of ['phx_none', 'phx_revoked']) {
    await t.rejects(resolve(keys, key, 1), { status: 401, code: 'invalid_personal_api_key' })
  }
  clock.now = Date.UTC(2031, 0)
  await t.rejects(resolve(keys, 'phx_old', 1), { status: 401, code: 'invalid_personal_api_key' })
})

t.test('a personal key writes events only with a scope that says so', async (t) => {
  const { keys, clock, postgres } = await createDirectory(t)
  const become = async (...scopes: string[]): Promise<void> => {
    await postgres.sql`UPDATE personal_api_keys SET scopes = ${scopes}::text[]`
    await keys.refresh()
  }
  const denied = { status: 403, code: 'permission_denied', type: 'authentication_error' }

  for (const scopes of [['event:write'], ['experiment:read', 'event:write'], ['*']]) {
    await become(...scopes)
    t.equal((await resolve(keys, 'phx_all', 1)).id, 1, scopes.join())
  }
  for (const scopes of [['experiment:read'], ['event:read'], ['event_definition:write', 'project:write'], []]) {
    await become(...scopes)
    await t.rejects(resolve(keys, 'phx_all', 1), denied, scopes.join())
    await t.rejects(resolve(keys, 'phx_all', 99), denied, 'existence of projects is not disclosed')
  }
  clock.now = Date.UTC(2031, 0)
  await t.rejects(resolve(keys, 'phx_old', 1), { status: 401, code: 'invalid_personal_api_key' })
})

t.test('a flood of unknown keys costs five readings, then one a second', async (t) => {
  const { keys, reads, clock } = await createDirectory(t)
  const flood = async (): Promise<void> => {
    const codes = await Promise.all(Array.from({ length: 500 }, async (_, i) =>
      await resolve(keys, `phc_${i}`).then(() => 'found', (error: unknown) => error instanceof HttpError ? error.code : error)))
    t.same([...new Set(codes)], [UNKNOWN.code])
  }

  for (let i = 0; i < 10; i++) await flood()
  const first = reads()
  t.ok(first >= 5 && first <= 6, `${first} readings`)
  clock.now += 1000
  for (let i = 0; i < 10; i++) await flood()
  t.ok(reads() - first <= 2, `${reads() - first} readings more`)
})

t.test('while Postgres is unavailable known keys keep working, others are answered 503', async (t) => {
  const { keys, clock, readBy } = await createDirectory(t)
  await resolve(keys, 'phc_one')
  const absent = connectPostgres({ url: 'postgres://nobody@127.0.0.1:1/none', max: 1 })
  t.teardown(async () => await absent.end({ timeout: 0 }))
  readBy(createReadKeys(absent, { withOwners: true, readProjects }))
  clock.now += 5000

  t.equal((await resolve(keys, 'phc_one')).id, 1)
  t.equal((await resolve(keys, 'phx_all', 1)).id, 1)
  await t.rejects(resolve(keys, 'phc_new'), { status: 503, code: 'fetch_team_fail', type: 'server_error' })
  await t.rejects(resolve(keys, 'phc_new'), { status: 503, code: 'fetch_team_fail' })

  readBy()
  clock.now += 1000
  await t.rejects(resolve(keys, 'phc_new'), { status: 401, code: 'invalid_api_key' })
})

t.test('a new key works at once, a removed one stops with the next reading', async (t) => {
  const { keys, clock, postgres } = await createDirectory(t)
  await resolve(keys, 'phc_one')
  clock.now += 1000
  await postgres.sql`INSERT INTO project_api_keys (api_key, project_id) VALUES ('phc_fresh', 1)`
  await postgres.sql`DELETE FROM project_api_keys WHERE api_key = 'phc_one'`

  t.equal((await resolve(keys, 'phc_fresh')).id, 1)
  await keys.refresh()
  clock.now += 1000
  await t.rejects(resolve(keys, 'phc_one'), UNKNOWN)
})

t.test('a server that hangs is answered 503 for after a moment, and asked again', async (t) => {
  const { keys, clock, readBy } = await createDirectory(t, 20)
  await keys.refresh()
  readBy(async () => await new Promise(() => {}))
  clock.now += 1000

  await t.rejects(resolve(keys, 'phc_new'), { status: 503, code: 'fetch_team_fail' })
  t.equal((await resolve(keys, 'phc_one')).id, 1)
  readBy()
  clock.now += 1000
  await waitFor(async () => await resolve(keys, 'phc_new').catch(({ code }) => code) === 'invalid_api_key')
})

t.test('what changes during a reading is read once more', async (t) => {
  const { keys, reads, readBy, postgres } = await createDirectory(t)
  const { promise: isHeld, resolve: letGo } = Promise.withResolvers<void>()
  const stored = createReadKeys(postgres.sql, { withOwners: true, readProjects })
  readBy(async () => {
    const table = await stored()
    await isHeld
    return table
  })

  const first = keys.refresh()
  await waitFor(() => reads() === 1)
  await postgres.sql`INSERT INTO project_api_keys (api_key, project_id) VALUES ('phc_fresh', 1)`
  const second = keys.refresh()
  letGo()
  await Promise.all([first, second])

  t.equal(reads(), 2)
  t.notOk(keys.findProject('phc_fresh', undefined, CAPTURE_SCOPE) instanceof Promise)
})

t.test('a personal key is known with its owner, and says why it may not be used', async (t) => {
  const { keys, clock } = await createDirectory(t)
  const refused = { status: 401, code: 'invalid_personal_api_key', type: 'authentication_error' }
  const find = async (key: string): Promise<unknown> => await keys.findPersonalKey(key)

  t.match(await find('phx_two'), { projectIds: [2], isRevoked: false, owner: { userId: 1, lastUsedAt: null } })
  t.notOk(keys.findPersonalKey('phx_two') instanceof Promise)
  await t.rejects(find('phx_none'), { ...refused, message: /is invalid/ })
  await t.rejects(find('phc_one'), { ...refused, message: /is invalid/ })
  await t.rejects(find('phx_revoked'), { ...refused, message: /was revoked/ })
  clock.now = Date.UTC(2031, 0)
  await t.rejects(find('phx_old'), { ...refused, message: /has expired/ })
})

t.test('a project that was made just now is found, by its number and as that of a key', async (t) => {
  const { keys, clock, reads, postgres } = await createDirectory(t)
  await keys.refresh()
  await postgres.sql`INSERT INTO projects (id, name) VALUES (7, 'seven'), (3, 'three')`
  clock.now += 1000

  t.equal((await resolve(keys, 'phx_all', 7)).id, 7)
  t.same(keys.projectIds(), [1, 2, 3, 7])
  t.equal(keys.hasProject(7), true)
  t.equal(await keys.hasProject(8), false)
  t.equal(reads(), 3)
})

t.test('a key that is made after another one was not found works at once', async (t) => {
  const { keys, postgres } = await createDirectory(t)

  await t.rejects(resolve(keys, 'phc_new'), UNKNOWN)
  await postgres.sql`INSERT INTO project_api_keys (api_key, project_id) VALUES ('phc_new', 1)`

  t.equal((await resolve(keys, 'phc_new')).id, 1)
})

t.test('changes are notified, in the tables that ingest may read', async (t) => {
  const { postgres: { sql, url: databaseUrl } } = await createDirectory(t)
  const { keys, close } = openKeys({
    sql, databaseUrl, withOwners: false, readProjects, maxWaitMs: 5000, now: Date.now, logger, metrics: createMetrics('ingest')
  })
  t.teardown(close)
  await keys.ready
  t.match(await keys.findPersonalKey('phx_all'), { owner: null })

  // What the copy knows is never asked for: only a notification changes these answers.
  await sql`UPDATE personal_api_keys SET project_ids = '{2}' WHERE project_ids IS NULL`
  await waitFor(async () => await resolve(keys, 'phx_all', 1).catch(({ code }) => code) === 'invalid_project')
  await sql`DELETE FROM project_api_keys WHERE api_key = 'phc_one'`
  await waitFor(async () => await resolve(keys, 'phc_one').catch(({ code }) => code) === 'invalid_api_key')
  t.equal(keys.state.isReady, true)
})
