import { createHash } from 'node:crypto'
import t from 'tap'
import { connectPostgres } from '../postgres/connect-postgres.ts'
import { createLogger } from '../logger.ts'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { createKeyDirectory, type KeyDirectory } from './key-directory.ts'
import { createLoadKeys, type LoadKeys, type Project } from './read-keys.ts'

const logger = createLogger({ component: 'test', level: 'silent' })

const UNKNOWN = { code: 'invalid_api_key' }

interface Setup {
  keys: KeyDirectory
  loads: () => number
  postgres: Awaited<ReturnType<typeof createTestPostgres>>
  clock: { now: number }
  setUnavailable: (isUnavailable: boolean) => void
}

async function createDirectory (t: { teardown (run: () => unknown): unknown }): Promise<Setup> {
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
  // Its own pool, ended when Postgres is to be unavailable: its queries then fail as those to an absent server do.
  const away = connectPostgres({ url: 'postgres://nobody@127.0.0.1:1/none', max: 1 })
  t.teardown(async () => await away.end({ timeout: 0 }))
  const here = createLoadKeys(sql)
  const absent = createLoadKeys(away)
  let load: LoadKeys = here
  let loads = 0
  const clock = { now: Date.UTC(2026, 10, 21) }
  const loadKeys: LoadKeys = async () => {
    loads++
    return await load()
  }
  const keys = createKeyDirectory({ loadKeys, logger, now: () => clock.now })
  return { keys, loads: () => loads, postgres, clock, setUnavailable: (is) => { load = is ? absent : here } }
}

const resolve = async (keys: KeyDirectory, key: string, projectId?: unknown): Promise<Project> =>
  await keys.resolve(key, projectId)

t.test('project and team keys name their project, from memory after the first reading', async (t) => {
  const { keys, loads } = await createDirectory(t)

  t.same(await resolve(keys, 'phc_one'), { id: 1, anonymizeIps: false })
  t.same(await resolve(keys, 'team_one'), { id: 1, anonymizeIps: false })
  t.same(await resolve(keys, 'phc_two'), { id: 2, anonymizeIps: true })
  t.notOk(keys.resolve('phc_two', undefined) instanceof Promise)
  t.equal(loads(), 1)
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
    await t.rejects(resolve(keys, 'phx_all', 99), denied, 'which projects there are is not told')
  }
  clock.now = Date.UTC(2031, 0)
  await t.rejects(resolve(keys, 'phx_old', 1), { status: 401, code: 'invalid_personal_api_key' })
})

t.test('a flood of unknown keys costs one reading a second', async (t) => {
  const { keys, loads, clock } = await createDirectory(t)
  const flood = async (): Promise<void> => {
    await Promise.all(Array.from({ length: 500 }, async (_, i) => await t.rejects(resolve(keys, `phc_${i}`), UNKNOWN)))
  }

  await flood()
  await flood()
  t.equal(loads(), 1)
  clock.now += 1000
  await flood()
  t.equal(loads(), 2)
})

t.test('while Postgres is unavailable known keys keep working, others are answered 503', async (t) => {
  const { keys, clock, setUnavailable } = await createDirectory(t)
  await resolve(keys, 'phc_one')
  setUnavailable(true)
  clock.now += 5000

  t.equal((await resolve(keys, 'phc_one')).id, 1)
  t.equal((await resolve(keys, 'phx_all', 1)).id, 1)
  await t.rejects(resolve(keys, 'phc_new'), { status: 503, code: 'fetch_team_fail', type: 'server_error' })
  await t.rejects(resolve(keys, 'phc_new'), { status: 503, code: 'fetch_team_fail' })

  setUnavailable(false)
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
