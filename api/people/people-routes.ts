import type { FastifyInstance } from 'fastify'
import { hashToken, mintToken } from '../../console/server/sessions.ts'
import { forbidden, HttpError, invalidField, MillraceError } from '../../engines/errors.ts'
import type { Sql, SqlTemplates } from '../../platform/postgres/connect-postgres.ts'
import { selectRoles } from '../../platform/directory/read-keys.ts'
import { type Membership, ROLES } from '../../schema/roles.ts'
import { orNotFound } from '../http/answer-errors.ts'
import { array, bodyOf, integer, object, optional, type Row, string, time, timeOrNull, type Value } from '../http/json-schema.ts'
import { publicOrigin } from '../http/pagination.ts'
import { type Access, requireAllProjects } from '../http/personal-key-access.ts'
import { idParams } from '../http/request-values.ts'
import { routesOf } from '../http/routes.ts'
import { changeKeys, isAdministrator, readMaker, endAllOf } from '../projects/key-rights.ts'
import { createUser, toStoredEmail, userSummarySchema } from '../projects/users.ts'
import { createLogIn } from './log-in.ts'
import { addressOf, writeRecord } from './record.ts'
import { passwordSchema } from './session-routes.ts'

const INVITATION_MS = 7 * 86_400_000

const roleSchema = bodyOf({
  project_id: { type: ['integer', 'null'], minimum: 1, maximum: 2_147_483_647, description: 'Null: all projects, and the installation.' },
  role: { type: 'string', enum: ROLES },
  sees_persons: { type: 'boolean', description: 'For viewers: may read persons and their events. Default: false.' }
}, 'project_id', 'role')

const rolesSchema = { ...array(roleSchema), maxItems: 1000 } as const

const userSchema = object({
  ...userSummarySchema.properties,
  keys: { type: 'integer', description: 'Number of valid personal keys.' },
  disabling_ends: object({ keys: integer, board_links: integer, sql_alerts: integer }, {
    description: 'What disabling the user ends permanently: keys that the user has or made, board links, and SQL in alerts.'
  }),
  roles: { ...rolesSchema, type: ['array', 'null'], description: 'Null: an account limited only by the scopes of its keys.' },
  has_password: { type: 'boolean' },
  provider: { type: ['string', 'null'], description: 'Issuer of the identity provider that the user logs in with.' },
  invited_until: { ...timeOrNull, description: 'Expiry of the open invitation.' },
  last_login_at: timeOrNull,
  disabled_at: timeOrNull
}, { $id: 'User' })

type User = Row<typeof userSchema>

const person = {
  email: { type: 'string', minLength: 3, maxLength: 254 },
  first_name: { type: 'string', maxLength: 150, default: '', description: 'Shown as the author of what the user creates.' }
} as const

const changesSchema = optional({ first_name: person.first_name, roles: rolesSchema, disabled: { type: 'boolean' } }, { additionalProperties: false })

const passwordsSchema = bodyOf({ current_password: { ...passwordSchema, minLength: 1 }, password: passwordSchema }, 'current_password', 'password')

interface PeopleDeps { sql: Sql, publicUrl: string, now: () => number }

/** Accounts that own keys, and people who log in with roles. Only administrators of all projects change others. */
export async function peopleRoutes (app: FastifyInstance, { sql, publicUrl, now }: PeopleDeps): Promise<void> {
  const routes = routesOf(app, { tag: 'account', object: 'user' })
  const answer = { $ref: 'User#' }
  app.addSchema(userSchema)
  const { changePassword } = createLogIn({ sql, now })
  const show = async (id: number): Promise<User> => orNotFound((await listUsers(sql, id))[0])

  routes.post('/users/@me/password', {
    summary: 'Change your own password', body: passwordsSchema, answer,
    description: 'Only in a session of the console. Other sessions of the user and an open invitation end; keys stay.'
  }, async (request, { userId, isSession, keyHash }) => {
    const { current_password: current, password } = request.body
    if (!isSession) throw forbidden('A key changes no password: log in with yours.')
    const address = addressOf(request)
    await changePassword({ userId, session: keyHash, current, password, address }).catch(async (error: unknown) => {
      if (error instanceof HttpError && error.code === 'authentication_failed') await writeRecord(sql, { kind: 'refusal', object: 'password', userId, address })
      throw error
    })
    return await show(userId)
  })

  routes.get('/users', {
    summary: 'List users', answer: object({ results: array(answer) }),
    description: 'All users, for a key with the scope * for all projects; otherwise the user of the key.'
  }, async (request, access) => ({ results: await listUsers(sql, isAdministrator(access) ? null : access.userId) }))

  routes.create('/users', {
    summary: 'Create a user', description: 'An account that owns keys and cannot log in. To let a person log in, create an invitation.',
    body: bodyOf(person, 'email'), answer
  }, async ({ body: { email, first_name: firstName = '' } }, access) => {
    requireAllProjects(access)
    if (!access.limits.every((roles) => roles.some(isAdministration))) throw forbidden('Only administrators create users.')
    return await show((await createUser(sql, { email, firstName }).catch(throwInvalid)).id)
  })

  routes.create('/invitations', {
    scope: '*', summary: 'Invite a person to log in',
    description: 'Creates the user, or gives an existing one these roles or, without any, only a new link. The link sets a password, works once, and expires after 7 days. No mail is sent. For administrators of all projects.',
    body: bodyOf({ ...person, roles: { ...rolesSchema, minItems: 1, description: 'Required for a new person.' } }, 'email'),
    answer: object({ user: answer, link: string, expires_at: time })
  }, async (request, access) => {
    requireAllProjects(access)
    const { email, first_name: firstName = '', roles } = request.body
    const token = mintToken()
    const expiresAt = new Date(now() + INVITATION_MS)
    const userId = await changeKeys(sql, async (tx) => {
      const makers = await requireAdministrator(tx, access)
      const { id, isDisabled, hasRoles } = await findOrCreate(tx, { email, firstName })
      if (isDisabled) throw invalidField('email', 'The user is disabled. Enable the user first.')
      refuseOneself(makers, id, 'email')
      if (roles !== undefined) await setRoles(tx, id, roles)
      else if (!hasRoles) throw invalidField('roles', 'A new person needs roles.', 'required')
      await tx`
        INSERT INTO invitations (user_id, token_hash, expires_at) VALUES (${id}, ${hashToken(token)}, ${expiresAt})
        ON CONFLICT (user_id) DO UPDATE SET token_hash = excluded.token_hash, expires_at = excluded.expires_at`
      return id
    })
    return { user: await show(userId), link: `${publicOrigin(request, publicUrl)}/console#invitation=${token}`, expires_at: expiresAt }
  })

  routes.patch('/users/:id', {
    scope: '*', summary: 'Change the roles of a user, or disable the user', params: idParams, answer,
    description: 'Disabling permanently ends all sessions of the user and what `disabling_ends` counts. For administrators of all projects.',
    body: changesSchema
  }, async ({ params: { id }, body }, access) => {
    requireAllProjects(access)
    // So that no key is made meanwhile.
    await changeKeys(sql, async (tx) => { await changeUser(tx, access, id, body) })
    return await show(id)
  })
}

async function changeUser (
  tx: SqlTemplates, access: Access, id: number, { first_name: firstName, roles, disabled }: Value<typeof changesSchema>
): Promise<void> {
  const makers = await requireAdministrator(tx, access)
  const [user] = await tx`SELECT id FROM users WHERE id = ${id} FOR UPDATE`
  orNotFound(user)
  if (firstName !== undefined) await tx`UPDATE users SET first_name = ${firstName} WHERE id = ${id}`
  if (roles !== undefined) {
    refuseOneself(makers, id, 'roles')
    await setRoles(tx, id, roles)
  }
  if (disabled === false) await tx`UPDATE users SET disabled_at = NULL WHERE id = ${id}`
  if (disabled === true) {
    refuseOneself(makers, id, 'disabled')
    await tx`UPDATE users SET disabled_at = coalesce(disabled_at, now()) WHERE id = ${id}`
    await endAllOf(tx, id)
  }
}

/** @param id  Only this user; null: all. */
async function listUsers (sql: Sql, id: number | null): Promise<User[]> {
  return await sql<User[]>`
    WITH usable AS (SELECT * FROM personal_api_keys WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()))
    SELECT u.id, u.uuid, u.distinct_id, u.first_name, u.email, u.is_email_verified,
      u.password_hash IS NOT NULL AS has_password, u.oidc_issuer AS provider, u.last_login_at, u.disabled_at, ${selectRoles(sql)},
      (SELECT expires_at FROM invitations i WHERE i.user_id = u.id) AS invited_until,
      (SELECT count(*) FROM usable k WHERE k.user_id = u.id) AS keys,
      json_build_object(
        'keys', (SELECT count(*) FROM usable k WHERE k.user_id = u.id OR u.id = ANY(k.made_by_users)),
        'board_links', (SELECT count(*) FROM board_links l WHERE u.id = ANY(l.made_by_users || l.created_by) AND (l.expires_at IS NULL OR l.expires_at > now())),
        'sql_alerts', (SELECT count(*) FROM alerts a WHERE a.may_run_sql AND u.id = ANY(a.made_by_users))) AS disabling_ends
    FROM users u WHERE ${id}::integer IS NULL OR u.id = ${id} ORDER BY u.id`
}

async function findOrCreate (
  tx: SqlTemplates, user: { email: string, firstName: string }
): Promise<{ id: number, isDisabled: boolean, hasRoles: boolean }> {
  await createUser(tx, user).catch((error: unknown) => {
    if (!(error instanceof MillraceError && error.code === 'MILLRACE_USER_EXISTS')) throwInvalid(error)
  })
  const [found] = await tx<{ id: number, isDisabled: boolean, hasRoles: boolean }[]>`
    SELECT id, disabled_at IS NOT NULL AS "isDisabled", has_roles AS "hasRoles" FROM users
    WHERE email = ${toStoredEmail(user.email)} FOR UPDATE`
  return orNotFound(found)
}

/** Replaces the roles that people have given; those of claims stay. */
async function setRoles (tx: SqlTemplates, userId: number, roles: readonly Value<typeof roleSchema>[]): Promise<void> {
  const ids = roles.map(({ project_id: id }) => id)
  if (new Set(ids).size < ids.length) throw invalidField('roles', 'A project must not occur twice.')
  const known = await tx<{ id: number }[]>`SELECT id FROM projects`
  const unknown = ids.find((id) => id !== null && !known.some((each) => each.id === id))
  if (unknown !== undefined) throw invalidField('roles', `There is no project ${unknown}.`)
  await tx`UPDATE users SET has_roles = true WHERE id = ${userId}`
  await tx`DELETE FROM memberships WHERE user_id = ${userId} AND NOT is_from_claim`
  for (const { project_id: projectId, role, sees_persons: seesPersons = false } of roles) {
    await tx`INSERT INTO memberships (user_id, project_id, role, sees_persons) VALUES (${userId}, ${projectId}, ${role}, ${seesPersons})`
  }
}

/**
 * Checked under the lock of `changeKeys`: of two administrators who disable each other at once, one remains.
 *
 * @returns whose rights the request has: of the user, and of those who made the key.
 */
async function requireAdministrator (tx: SqlTemplates, access: Access): Promise<readonly number[]> {
  const { users } = await readMaker(tx, access)
  const roles = await tx<{ roles: Membership[] }[]>`SELECT ${selectRoles(tx)} FROM users u WHERE u.id = ANY(${users}) AND u.has_roles`
  if (!roles.every((each) => each.roles.some(isAdministration))) throw forbidden('You are no longer an administrator.')
  return users
}

/** Nobody locks themselves out, and nobody changes what they may do. */
function refuseOneself (makers: readonly number[], id: number, field: string): void {
  if (makers.includes(id)) throw invalidField(field, 'You cannot change your own user, nor one that your key depends on: another administrator must.')
}

function isAdministration ({ project_id: projectId, role }: Membership): boolean {
  return projectId === null && role === 'admin'
}

function throwInvalid (error: unknown): never {
  if (!(error instanceof MillraceError)) throw error
  const isKnown = error.code === 'MILLRACE_USER_EXISTS'
  throw invalidField('email', isKnown ? 'There is already a user with this address.' : 'This is not an e-mail address.', isKnown ? 'unique' : 'invalid_input', error)
}
