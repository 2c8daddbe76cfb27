/** What people may do: roles are named sets of scopes, in one project or in all. */
import { forbidden } from '../engines/errors.ts'
import { allowsScope, requireScope, type Scope, SCOPE_OBJECTS, type ScopeObject } from './scopes.ts'

export const ROLES = ['viewer', 'editor', 'admin'] as const

export type Role = typeof ROLES[number]

/** What a user may do in one project, or in all. */
export interface Membership {
  /** Null: in all, and for the installation. */
  project_id: number | null
  role: Role
  /** A viewer who sees persons and their events, which editors and administrators do anyway. */
  sees_persons: boolean
}

const ALL: readonly Scope[] = SCOPE_OBJECTS.flatMap((object): Scope[] => [`${object}:read`, `${object}:write`])

/** `user:write` is for the own keys, which never exceed their owner; others are for administrators. */
const VIEWER: readonly Scope[] = [
  'event_definition:read', 'experiment:read', 'feature_flag:read', 'project:read', 'property_definition:read', 'query:read', 'user:write'
]

/** Of these, editors only read: what they destroy does not come back. */
const READ_BY_EDITORS: readonly ScopeObject[] = ['person', 'project']

const SCOPES_OF: Record<Role, readonly string[]> = {
  viewer: VIEWER,
  editor: ALL.filter((scope) => !READ_BY_EDITORS.some((object) => scope === `${object}:write`)),
  admin: ['*']
}

/** What a key or a session may do. */
export interface Rights {
  scopes: readonly string[]
  /** Null: for all projects. */
  projectIds: readonly number[] | null
  /** False: addresses of mail are masked in answers, and there is no SQL. */
  seesPersons: boolean
}

export function scopesOf ({ role, sees_persons: seesPersons }: Omit<Membership, 'project_id'>): readonly string[] {
  return role === 'viewer' && seesPersons ? [...VIEWER, 'event:read', 'person:read'] : SCOPES_OF[role]
}

/** What a key or a session says that it may do, and what limits it. */
export interface Limited extends Pick<Rights, 'scopes' | 'projectIds'> {
  /** Roles of its owner, and of each user who made it, if they have some. Empty: it may do what it says. */
  limits: ReadonlyArray<readonly Membership[]>
}

/**
 * The rights of a key or session that its owner and its makers have, too.
 *
 * @param projectId  Where; null: on a route about no project, where somebody with roles in some projects may do what
 *   all of them allow.
 */
export function limitRights ({ scopes, projectIds, limits }: Limited, projectId: number | null): Rights {
  const said: Rights = { scopes, projectIds, seesPersons: true }
  return limits.reduce((rights, roles) => limitTo(rights, roles, projectId), said)
}

const HOLDERS = {
  viewer: VIEWER, 'viewer with sees_persons': scopesOf({ role: 'viewer', sees_persons: true }),
  editor: SCOPES_OF.editor, admin: SCOPES_OF.admin
}

/**
 * The same for what somebody wants to do.
 *
 * @throws {HttpError} 403 naming the scope that the key lacks, or the right that the role lacks.
 */
export function requireRight (limited: Limited, projectId: number | null, wanted: Scope | '*'): Rights {
  requireScope(limited.scopes, wanted)
  const rights = limitRights(limited, projectId)
  if (allowsScope(rights.scopes, wanted)) return rights
  const roles = limited.limits.flat()
    .filter(({ project_id: id }) => id === null || projectId === null || id === projectId)
  const names = [...new Set(roles.map(({ role }) => role))].join(' and ')
  const holders = Object.entries(HOLDERS).filter(([, scopes]) => allowsScope(scopes, wanted)).map(([name]) => name)
  throw forbidden(`${names === '' ? 'A user without a role' : `The role ${names}`} lacks the right '${wanted}'. Roles that have it: ${holders.join(', ')}.`)
}

/** Whether SQL may be run, which reads persons of all projects: rights in one of them do not reach the others. */
export function maySql (limited: Limited): boolean {
  const { projectIds, seesPersons } = limitRights(limited, null)
  return projectIds === null && seesPersons
}

function limitTo (key: Rights, roles: readonly Membership[], projectId: number | null): Rights {
  const isEverywhere = roles.some(({ project_id: id }) => id === null)
  const projectIds = isEverywhere
    ? key.projectIds
    : [...new Set(roles.map(({ project_id: id }) => id ?? 0))].filter((id) => key.projectIds?.includes(id) ?? true)
  const isAcross = projectId === null && !isEverywhere
  const counted = roles.filter(({ project_id: id }) =>
    id === null || (isAcross ? projectIds?.includes(id) : id === projectId))
  if (counted.length === 0) return { scopes: [], projectIds, seesPersons: false }
  // In a project, the role there and the role everywhere add up; across projects, only what all allow counts.
  const allowed = counted.map(scopesOf).reduce(isAcross ? intersect : unite)
  return { scopes: intersect(key.scopes, allowed), projectIds, seesPersons: key.seesPersons && allowsScope(allowed, 'person:read') }
}

function intersect (one: readonly string[], other: readonly string[]): readonly string[] {
  if (one.includes('*')) return other
  if (other.includes('*')) return one
  return ALL.filter((scope) => allowsScope(one, scope) && allowsScope(other, scope))
}

function unite (one: readonly string[], other: readonly string[]): readonly string[] {
  return one.includes('*') || other.includes('*') ? ['*'] : [...new Set([...one, ...other])]
}
