import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { MillraceError } from '../../platform/errors.ts'
import { hashPersonalKey } from './hash-personal-key.ts'
import { maskKey, mintKey } from './mint-key.ts'
import { isScope, SCOPE_OBJECTS } from '../../platform/scopes.ts'

export interface NewPersonalKey {
  email: string
  label: string
  /** Like `experiment:read`; `*` allows everything. */
  scopes: string[]
  /** Null: every project. */
  projectIds: number[] | null
  /** Null: never. */
  expiresAt: Date | null
  /** Default: a new random one. */
  key?: string | undefined
}

export interface CreatedPersonalKey {
  id: string
  /** The key itself: this is the only time it exists in the clear. */
  key: string
}

/**
 * Creates a personal key and returns it once; only its hash is stored.
 *
 * @throws {MillraceError} `MILLRACE_USER_UNKNOWN`, `MILLRACE_PROJECT_UNKNOWN`, `MILLRACE_SCOPE_UNKNOWN`.
 */
export async function createPersonalKey (sql: Sql, options: NewPersonalKey): Promise<CreatedPersonalKey> {
  const unknown = options.scopes.find((scope) => !isScope(scope))
  if (unknown !== undefined || options.scopes.length === 0) {
    throw new MillraceError('MILLRACE_SCOPE_UNKNOWN',
      `"${unknown ?? ''}" is not a scope: use *, or <object>:read or <object>:write with one of ${SCOPE_OBJECTS.join(', ')}`)
  }
  await refuseUnknownProjects(sql, options.projectIds)
  const key = options.key ?? mintKey('phx_')
  const [row] = await sql<{ id: string }[]>`
    INSERT INTO personal_api_keys (user_id, label, secure_value, mask_value, scopes, project_ids, expires_at)
    SELECT id, ${options.label}, ${hashPersonalKey(key)}, ${maskKey(key)}, ${options.scopes}::text[],
      ${options.projectIds}::integer[], ${options.expiresAt}
    FROM users WHERE email = ${options.email.trim().toLowerCase()}
    RETURNING id`
  if (row === undefined) throw new MillraceError('MILLRACE_USER_UNKNOWN', `there is no user ${options.email}`)
  return { id: row.id, key }
}

async function refuseUnknownProjects (sql: Sql, ids: number[] | null): Promise<void> {
  if (ids === null) return
  const known = await sql<{ id: number }[]>`SELECT id FROM projects WHERE id = ANY(${ids}::integer[])`
  const unknown = ids.find((id) => !known.some((row) => row.id === id))
  if (unknown !== undefined) throw new MillraceError('MILLRACE_PROJECT_UNKNOWN', `there is no project ${unknown}`)
}
