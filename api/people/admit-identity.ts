import { HttpError } from '../../engines/errors.ts'
import { actors } from '../../platform/postgres/actor.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import type { Membership } from '../../schema/roles.ts'
import { toStoredEmail } from '../projects/users.ts'
import { spendInvitation } from './log-in.ts'
import type { Identity } from './oidc.ts'

/** Why somebody known to the provider has no account here: the console has the words. */
export type Refusal = 'no_role' | 'account_exists' | 'disabled'

/** An invitation that is used, and its user. */
export interface Invited { userId: number, token: string }

interface Admission { roles: Membership[], invited: Invited | null, address: string }

/** @throws {HttpError} 401 with a `Refusal` as the code. */
function refuse (code: Refusal, detail: string): never {
  throw new HttpError(401, 'authentication_error', code, detail)
}

/**
 * Finds or creates the user of an identity, with the roles that its claims give now.
 *
 * @param invited  Its account is bound to the identity.
 * @returns the id of the user.
 */
export async function admitIdentity (
  sql: Sql, identity: Identity, { roles, invited, address }: Admission
): Promise<number> {
  const { issuer, subject } = identity
  const [known] = await sql<{ id: number }[]>`
    SELECT id FROM users WHERE oidc_issuer = ${issuer} AND oidc_subject = ${subject}`
  const user = known?.id ?? invited?.userId ?? null
  return await actors.run({ user_id: user, address }, async () => await sql.begin(async (tx) => {
    const id = known?.id ??
      (invited === null ? await createFor(tx, identity, roles) : await bind(tx, identity, invited))
    await replaceRoles(tx, id, roles)
    const [found] = await tx<{ isDisabled: boolean, hasRole: boolean }[]>`
      SELECT disabled_at IS NOT NULL AS "isDisabled", EXISTS (SELECT FROM memberships WHERE user_id = users.id) AS "hasRole"
      FROM users WHERE id = ${id}`
    if (found?.isDisabled !== false) refuse('disabled', 'The account is disabled.')
    return { id, hasRole: found.hasRole }
  })).then(({ id, hasRole }) => {
    // After the commit: that the roles are gone must stay.
    if (!hasRole) refuse('no_role', 'Your account at the identity provider has no role here.')
    return id
  })
}

async function createFor (
  tx: TransactionSql, { issuer, subject, email, firstName }: Identity, roles: Membership[]
): Promise<number> {
  if (roles.length === 0) refuse('no_role', 'Your account at the identity provider has no role here.')
  const address = toStoredEmail(email === '' ? `${subject}@${URL.parse(issuer)?.hostname ?? issuer}` : email)
  const [created] = await tx<{ id: number }[]>`
    INSERT INTO users (email, first_name, has_roles, oidc_issuer, oidc_subject)
    VALUES (${address.slice(0, 254)}, ${firstName.slice(0, 150)}, true, ${issuer}, ${subject}) ON CONFLICT DO NOTHING RETURNING id`
  // An address alone is no proof: whoever controls one at the provider would take the account.
  return created?.id ?? refuse('account_exists', 'A user with this address already exists. An administrator must invite you to link the account.')
}

async function bind (tx: TransactionSql, { issuer, subject }: Identity, { userId, token }: Invited): Promise<number> {
  await spendInvitation(tx, userId, token)
  await tx`UPDATE users SET oidc_issuer = ${issuer}, oidc_subject = ${subject} WHERE id = ${userId}`
  return userId
}

/** Writes only what differs: claims are read every few minutes. */
async function replaceRoles (tx: TransactionSql, userId: number, roles: Membership[]): Promise<void> {
  const known = await tx<Membership[]>`
    SELECT project_id, role, sees_persons FROM memberships WHERE user_id = ${userId} AND is_from_claim FOR UPDATE`
  const isSame = (one: Membership, other: Membership): boolean =>
    one.project_id === other.project_id && one.role === other.role && one.sees_persons === other.sees_persons
  if (known.length === roles.length && roles.every((role) => known.some((each) => isSame(each, role)))) return
  await tx`DELETE FROM memberships WHERE user_id = ${userId} AND is_from_claim`
  for (const role of roles) {
    // A rule may name a project that is not there.
    await tx`
      INSERT INTO memberships (user_id, project_id, role, sees_persons, is_from_claim)
      SELECT ${userId}, ${role.project_id}, ${role.role}, ${role.sees_persons}, true
      WHERE ${role.project_id}::integer IS NULL OR EXISTS (SELECT FROM projects WHERE id = ${role.project_id})`
  }
}
