import type { FastifyInstance } from 'fastify'
import { forbidden, invalidField } from '../../engines/errors.ts'
import { hashPersonalKey, maskKey, mintKey } from '../../schema/key-text.ts'
import type { Sql, SqlTemplates } from '../../platform/postgres/connect-postgres.ts'
import { isScope, SCOPE_OBJECTS } from '../../schema/scopes.ts'
import { selectPage } from '../http/list-queries.ts'
import type { Access } from '../http/personal-key-access.ts'
import { parseIsoDateTime, uuidParams } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'
import {
  changeKeys, inheritKeys, isAdministrator, isSeenBy, isWithin, lockKey, outlasts,
  readMaker, revokeWithMade, selectShownKey, type ShownKey, shownKeySchema
} from './key-rights.ts'
import { bodyOf, object, optional, type Value } from '../http/json-schema.ts'

const MAX_KEYS_OF_USER = 200

/** How long a rotated key is accepted unless the request says otherwise, and at most, in seconds: a day, 90 days. */
const GRACE_SECONDS = 86_400
const MAX_GRACE_SECONDS = 7_776_000

const withValue = object({
  ...shownKeySchema.properties, value: { type: 'string', description: 'The key. Shown only once: only its hash is stored.' }
})

const newKeySchema = bodyOf({
  label: { type: 'string', minLength: 1, pattern: '\\S', maxLength: 40, description: 'Purpose of the key.' },
  scopes: {
    type: 'array', minItems: 1, maxItems: 50, items: { type: 'string', maxLength: 60 },
    description: 'For example experiment:read; * grants everything. The requesting key must have each of them; write includes read.'
  },
  scoped_teams: {
    type: ['array', 'null'], minItems: 1, maxItems: 1000, items: { type: 'integer', minimum: 1, maximum: 2_147_483_647 }, default: null,
    description: 'Ids of its projects; null for all projects of the requesting key.'
  },
  expires_at: { type: ['string', 'null'], format: 'date-time', default: null, description: 'Null: expires with the requesting key, or never.' },
  user_id: { type: 'integer', minimum: 1, maximum: 2_147_483_647, description: 'Owner of the key; default: the requesting user. Another owner requires scope * for all projects.' }
}, 'label', 'scopes')

const rotationSchema = optional({
  grace_seconds: { type: 'integer', minimum: 0, maximum: MAX_GRACE_SECONDS, default: GRACE_SECONDS, description: 'How long the old key is accepted; 0: it stops working at once. A key that expires earlier keeps its expiry.' }
}, { additionalProperties: false })

type NewKeyBody = Value<typeof newKeySchema>

interface KeyDeps { sql: Sql, publicUrl: string, now: () => number }

/**
 * Personal keys. A key makes, rotates and revokes only keys that may do no more than itself, and what it made ends with
 * it: anyone who gets hold of a limited one can neither widen it nor keep it nor lock an administrator out. It sees
 * those of its own user; one with the scope `*` for all projects sees and makes those of everybody. What a user makes
 * for others never exceeds the user, and ends with the account.
 */
export async function personalKeyRoutes (app: FastifyInstance, deps: KeyDeps): Promise<void> {
  const { sql, publicUrl } = deps
  const routes = routesOf(app, { tag: 'account', object: 'user', publicUrl })

  routes.list('/personal_api_keys', {
    summary: 'List personal keys', description: 'Newest first, masked; revoked and expired ones included.',
    item: shownKeySchema
  }, async ({ query }, access) => await selectPage<ShownKey>(sql, query, {
    order: 'newest keys', select: selectShownKey(sql, access), from: sql`personal_api_keys k JOIN users u ON u.id = k.user_id`,
    where: isSeenBy(sql, access), keys: [{ by: sql`k.created_at`, kind: 'time', descends: true }, { by: sql`k.id::text`, kind: 'text' }]
  }))

  routes.create('/personal_api_keys', {
    summary: 'Create a personal key', body: newKeySchema, answer: withValue
  }, async ({ body }, access) => await createKey(deps, access, body))

  routes.create('/personal_api_keys/:id/rotate', {
    summary: 'Replace a personal key', params: uuidParams, body: rotationSchema, answer: withValue,
    description: 'The new key has the same rights and expiry. Revoking the requesting key, or the key that created the old one, revokes it as well. The old key is accepted for a grace period.'
  }, async ({ params: { id }, body }, access) => await rotateKey(deps, access, { id, ...body }))

  routes.delete('/personal_api_keys/:id', {
    summary: 'Revoke a personal key and the keys created with it', params: uuidParams,
    description: 'Every process refuses them within a second.', answer: { type: 'null', description: 'Revoked.' }
  }, async ({ params: { id } }, access) => await changeKeys(sql, async (tx) => {
    const key = await lockKey(tx, id, access, { isEnding: true })
    await revokeWithMade(tx, key.id)
  }))
}

/** @throws {HttpError} 400 for a key that may do more than the one that makes it, or lasts longer. */
export async function createKey (
  { sql, now }: Pick<KeyDeps, 'sql' | 'now'>, access: Access, body: NewKeyBody
): Promise<CreatedKey> {
  const { label, scopes, user_id: userId = access.userId } = body
  const projectIds = body.scoped_teams ?? access.projectIds
  if (userId !== access.userId && !isAdministrator(access)) {
    throw invalidField('user_id', 'Only a key with the scope * for all projects can create keys for other users.')
  }
  refuseUnknownScope(scopes)
  const isAllowed = access.isSession && projectIds !== null
    ? projectIds.every((id) => isWithin({ scopes, projectIds: [id] }, access.rightsIn(id)))
    : isWithin({ scopes, projectIds }, access)
  if (!isAllowed) {
    throw invalidField('scopes', 'A key cannot create a key with more rights than its own.')
  }
  await refuseUnknownProjects(sql, projectIds)
  const expiresAt = parseIsoDateTime(body.expires_at) ?? null
  if (expiresAt !== null && expiresAt.getTime() <= now()) throw invalidField('expires_at', 'It must be in the future.')
  return await changeKeys(sql, async (tx) => {
    const maker = await readMaker(tx, access)
    if (expiresAt !== null && outlasts(expiresAt, maker)) throw invalidField('expires_at', 'A key cannot create a key that expires later than itself.')
    const madeBy = maker.id === null ? [] : [maker.id]
    const ends = expiresAt ?? maker.expiresAt
    const key = { userId, label, scopes, projectIds, expiresAt: ends, madeBy, madeByUsers: maker.users }
    return await insertKey(tx, key, access)
  })
}

/** @throws {HttpError} 400 for a key that has ended, 403 for one that lasts longer than the key of the request. */
async function rotateKey (
  { sql, now }: KeyDeps, access: Access,
  { id, grace_seconds: graceSeconds = GRACE_SECONDS }: { id: string, grace_seconds?: number }
): Promise<CreatedKey> {
  const endsAt = new Date(now() + graceSeconds * 1000)
  return await changeKeys(sql, async (tx) => {
    const maker = await readMaker(tx, access)
    const old = await lockKey(tx, id, access)
    if (!isUsable(old, now())) throw invalidField('id', 'It can no longer be used: create a new key.')
    if (outlasts(old.expires_at, maker)) throw forbidden('This key expires later than yours.')
    const madeBy = [...new Set([...old.made_by, ...maker.id === null ? [] : [maker.id]])]
    const { label, scopes, scoped_teams: projectIds, expires_at: expiresAt, made_by_users: makers } = old
    const madeByUsers = [...makers, ...maker.users]
    const key = { userId: old.user.id, label, scopes, projectIds, expiresAt, madeBy, madeByUsers }
    const fresh = await insertKey(tx, key, access)
    await inheritKeys(tx, { from: old.id, to: fresh.id })
    await tx`UPDATE personal_api_keys SET expires_at = LEAST(expires_at, ${endsAt}) WHERE id = ${old.id}`
    return fresh
  })
}

type CreatedKey = ShownKey & { value: string }

function isUsable ({ revoked_at: revokedAt, expires_at: expiresAt }: ShownKey, now: number): boolean {
  return revokedAt === null && (expiresAt === null || expiresAt.getTime() > now)
}

interface NewKey {
  userId: number
  label: string
  scopes: string[]
  projectIds: readonly number[] | null
  expiresAt: Date | null
  madeBy: string[]
  /** May name the owner, and somebody twice. */
  madeByUsers: number[]
}

async function insertKey (sql: SqlTemplates, key: NewKey, access: Access): Promise<CreatedKey> {
  const value = mintKey('phx_')
  const [owner] = await sql<{ usable: number }[]>`
    SELECT (SELECT count(*) FROM personal_api_keys k WHERE k.user_id = u.id AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())) AS usable
    FROM users u WHERE u.id = ${key.userId} AND u.disabled_at IS NULL`
  if (owner === undefined) throw invalidField('user_id', `There is no user ${key.userId}.`)
  if (owner.usable >= MAX_KEYS_OF_USER) throw invalidField('user_id', `A user has at most ${MAX_KEYS_OF_USER} keys that can be used: revoke some.`)
  const others = [...new Set(key.madeByUsers)].filter((id) => id !== key.userId)
  const [row] = await sql<[{ id: string }]>`
    INSERT INTO personal_api_keys (user_id, label, secure_value, mask_value, scopes, project_ids, expires_at, made_by, made_by_users)
    VALUES (${key.userId}, ${key.label}, ${hashPersonalKey(value)}, ${maskKey(value)}, ${key.scopes}::text[],
      ${key.projectIds === null ? null : [...key.projectIds]}::integer[], ${key.expiresAt}, ${key.madeBy}::uuid[], ${others}::integer[])
    RETURNING id`
  const [created] = await sql<[ShownKey]>`
    SELECT ${selectShownKey(sql, access)} FROM personal_api_keys k JOIN users u ON u.id = k.user_id WHERE k.id = ${row.id}`
  return { ...created, value }
}

function refuseUnknownScope (scopes: string[]): void {
  const unknown = scopes.find((scope) => !isScope(scope))
  if (unknown === undefined) return
  throw invalidField('scopes', `"${unknown}" is not a scope: use *, or <object>:read or <object>:write with one of ${SCOPE_OBJECTS.join(', ')}.`)
}

async function refuseUnknownProjects (sql: Sql, ids: readonly number[] | null): Promise<void> {
  if (ids === null) return
  const known = await sql<{ id: number }[]>`SELECT id FROM projects WHERE id = ANY(${[...ids]}::integer[])`
  const unknown = ids.find((id) => !known.some((row) => row.id === id))
  if (unknown !== undefined) throw invalidField('scoped_teams', `There is no project ${unknown}.`)
}
