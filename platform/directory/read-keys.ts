import type { Sql, SqlTemplates, Statement } from '../postgres/connect-postgres.ts'
import type { Limited, Membership } from '../../schema/roles.ts'

/** A project, as far as its keys lead to it. */
export interface Project {
  id: number
  /** The addresses of its clients are not stored. */
  anonymizeIps: boolean
}

/** A personal key, revoked and expired ones included. */
export interface PersonalKey extends Limited {
  /** The stored form of the key (`hashPersonalKey`), which identifies it. */
  hash: string
  /** Epoch milliseconds; `Infinity` for a key without an end. */
  expiresAt: number
  isRevoked: boolean
  /** Null when owners are not read. */
  owner: KeyOwner | null
  /** True: no key, but the session of a user who has logged in, in the place of one. */
  isSession?: boolean
}

export interface KeyOwner {
  userId: number
  /** Of the key; null before the first time. */
  lastUsedAt: Date | null
}

/** A copy of all keys, and of the projects with what the tier knows of them. */
export interface KeyTable<P extends Project> {
  projects: Map<number, P>
  projectKeys: Map<string, { project: P, expiresAt: number }>
  /** By hash, so that no list of usable keys lies in memory. */
  personalKeys: Map<string, PersonalKey>
}

export type ReadKeys<P extends Project = Project> = () => Promise<KeyTable<P>>

/** Which tables are read, and what of a project. */
export interface ReadKeysOptions<P extends Project> {
  /** Also read the owners of personal keys, for management. The login of ingest has no right to. */
  withOwners: boolean
  /** {@link readProjects}, or with what the tier knows of a project beside that. */
  readProjects: (sql: Sql) => Promise<readonly P[]>
}

/** Reads all projects. */
export async function readProjects (sql: Sql): Promise<Project[]> {
  return await sql<Project[]>`SELECT id, anonymize_ips AS "anonymizeIps" FROM projects`
}

/** Reads the tables of keys from Postgres. */
export function createReadKeys<P extends Project> (
  sql: Sql, { withOwners, readProjects }: ReadKeysOptions<P>
): ReadKeys<P> {
  return async function readKeys () {
    const [projectKeys, personalKeys] = await Promise.all([
      sql<{ api_key: string, project_id: number, expires_at: Date | null }[]>`
        SELECT api_key, project_id, expires_at FROM project_api_keys`,
      sql<PersonalKeyRow[]>`
        SELECT secure_value, scopes, project_ids, expires_at, revoked_at ${withOwners ? sql`, user_id, last_used_at` : sql``},
          ${selectLimits(sql, sql`k.made_by_users || k.user_id`)}
        FROM personal_api_keys k`
    ])
    // After the keys: whatever was active when a key was made is read with it.
    const projects = await readProjects(sql)
    const table: KeyTable<P> = {
      projects: new Map(projects.map((project) => [project.id, project])),
      projectKeys: new Map(),
      personalKeys: new Map()
    }
    for (const row of projectKeys) {
      const project = table.projects.get(row.project_id)
      // Deleted between the queries.
      if (project !== undefined) table.projectKeys.set(row.api_key, { project, expiresAt: toTime(row.expires_at) })
    }
    for (const row of personalKeys) table.personalKeys.set(row.secure_value, toPersonalKey(row))
    return table
  }
}

/** The column `limits`: the roles of those of some users, an array of ids, who have some. */
export function selectLimits (sql: SqlTemplates, users: Statement): Statement {
  return sql`(
    SELECT coalesce(json_agg(roles), '[]') FROM (
      SELECT ${selectRoles(sql)} FROM users u WHERE u.has_roles AND u.id = ANY(${users})
    ) AS limiting) AS limits`
}

/** The column `roles` of a query on `users AS u`: the roles of a user who has some, else null. */
export function selectRoles (sql: SqlTemplates): Statement {
  return sql`CASE WHEN u.has_roles THEN (
    SELECT coalesce(json_agg(json_build_object('project_id', m.project_id, 'role', m.role, 'sees_persons', m.sees_persons)), '[]')
    FROM memberships m WHERE m.user_id = u.id) END AS roles`
}

interface PersonalKeyRow {
  secure_value: string
  scopes: string[]
  project_ids: number[] | null
  expires_at: Date | null
  revoked_at: Date | null
  limits: Membership[][]
  user_id?: number
  last_used_at?: Date | null
}

function toPersonalKey (row: PersonalKeyRow): PersonalKey {
  return {
    hash: row.secure_value,
    scopes: row.scopes,
    projectIds: row.project_ids,
    expiresAt: toTime(row.expires_at),
    isRevoked: row.revoked_at !== null,
    limits: row.limits,
    owner: row.user_id === undefined ? null : { userId: row.user_id, lastUsedAt: row.last_used_at ?? null }
  }
}

function toTime (date: Date | null): number {
  return date === null ? Infinity : date.getTime()
}
