/**
 * Definitions with versions (event schemas and rules): a version never changes; another content makes the next one,
 * which is enforced when it is made active. A deleted definition keeps its versions, because stored events name them;
 * one that is created with its name has a history of its own, whose numbers go on from there.
 */
import type { CountedDefinition } from '../platform/definition-counts.ts'
import type { Sql, SqlTemplates, Statement } from '../platform/postgres/connect-postgres.ts'
import { notFound } from './http/errors.ts'
import { matchSearch } from './http/list-queries.ts'
import type { PageContent, PageQuery } from './http/pagination.ts'
import { selectCreatedBy } from './keys/users.ts'

/** How definitions of a kind are stored, and what answers show of them. */
export interface VersionedKind<Definition, Version> {
  /** What an error calls one: `schema`. */
  noun: string
  table: string
  versionsTable: string
  /** The column of a version that holds the id of its definition. */
  parentColumn: string
  /** The JSON column of a version. */
  contentColumn: string
  /** The column whose value is unique in a project. */
  nameColumn: string
  /** The order of a list. */
  orderBy: string
  /** Columns of a definition besides the common ones. */
  definitionColumns: string
  /** Columns made of the content of a version. */
  contentColumns: string
  /** What of a definition a change may give. */
  writable: readonly string[]
  /** Types of a row of each; never set. */
  rows?: { definition: Definition, version: Version }
}

/** Any kind, where what answers show does not matter. */
export type Kind = VersionedKind<unknown, unknown>

/** Of a change in a request. */
export const baseVersionSchema = {
  type: 'integer',
  description: 'The newest version when the change was begun. When there is another one by now, 409 `conflict`: nothing is changed.'
} as const

/** What a list of versions can be limited to. */
export const versionQueryProperties = {
  deleted: {
    type: 'boolean', description: 'true: also versions of deleted ones of this name, by which events may have been checked. Default: false.'
  }
} as const

/** What counts by definition can be limited to. */
export const countsQuerySchema = {
  type: 'object',
  properties: { days: { type: 'integer', minimum: 1, maximum: 90, description: 'Days before now; default 7.' } }
} as const

export interface NamedKey {
  projectId: number
  name: string
}

/** Which definition: by its id, or by its name. */
export type DefinitionKey = { projectId: number, id: number } | NamedKey

export interface DefinitionQuery extends PageQuery {
  search?: string
  /** Whether a version is active; undefined: both. */
  active?: boolean
}

export interface VersionQuery extends PageQuery {
  /** Also those of deleted definitions of this name. */
  deleted?: boolean
  /** Only this one; undefined: all. */
  version?: number
}

/** Lists the definitions of a project with their newest version. */
export async function listDefinitions<Definition extends object> (
  sql: Sql, kind: VersionedKind<Definition, unknown>, { projectId, ...query }: DefinitionQuery & { projectId: number }
): Promise<PageContent<Definition>> {
  const matches = sql`d.project_id = ${projectId} AND NOT d.deleted
    AND (${query.active ?? null}::boolean IS NULL OR (d.active_version IS NOT NULL) = ${query.active ?? null})
    AND ${matchSearch(sql, sql`d.${sql.unsafe(kind.nameColumn)}`, query.search)}`
  const [counted, results] = await Promise.all([
    sql<{ count: number }[]>`SELECT count(*)::integer AS count FROM ${sql.unsafe(kind.table)} AS d WHERE ${matches}`,
    sql<Definition[]>`${selectDefinitions(sql, kind)} WHERE ${matches}
      ORDER BY ${sql.unsafe(kind.orderBy)} LIMIT ${query.limit} OFFSET ${query.offset}`
  ])
  return { results, count: counted[0]!.count }
}

/** What counting the events of definitions needs: of all of a project, without their content. */
export async function listCounted<Definition extends CountedDefinition> (
  sql: Sql, kind: VersionedKind<Definition, unknown>, projectId: number
): Promise<(CountedDefinition & Pick<Definition, Extract<keyof Definition, 'event'>>)[]> {
  return await sql`
    SELECT d.id, d.first_version, d.created_at, ${sql.unsafe(kind.definitionColumns)} FROM ${sql.unsafe(kind.table)} AS d
    WHERE d.project_id = ${projectId} AND NOT d.deleted ORDER BY ${sql.unsafe(kind.orderBy)}`
}

/**
 * The definition with its newest version.
 *
 * @throws {HttpError} 404 when the project has no such definition.
 */
export async function findDefinition<Definition extends object> (
  sql: Sql, kind: VersionedKind<Definition, unknown>, key: DefinitionKey
): Promise<Definition> {
  const [found] = await sql<Definition[]>`${selectDefinitions(sql, kind)} WHERE ${matchKey(sql, kind, key)}`
  if (found === undefined) throw notFound()
  return found
}

/**
 * Lists the versions of a definition, newest first.
 *
 * @throws {HttpError} 404 when the project has no such definition, or it has no such version.
 */
export async function listVersions<Version extends object> (
  sql: Sql, kind: VersionedKind<unknown, Version>, { limit, offset, ...query }: DefinitionKey & VersionQuery
): Promise<PageContent<Version>> {
  const { deleted = false, version = null } = query
  const ofDefinition = sql`FROM ${sql.unsafe(kind.table)} AS d
    JOIN ${sql.unsafe(kind.versionsTable)} AS v ON v.${sql.unsafe(kind.parentColumn)} = d.id
    WHERE ${matchName(sql, kind, query)}
      AND (${deleted}::boolean OR (v.version >= d.first_version AND NOT d.deleted))
      AND (${version}::integer IS NULL OR v.version = ${version})`
  const [counted, results] = await Promise.all([
    sql<{ count: number }[]>`SELECT count(*)::integer AS count ${ofDefinition}`,
    sql<Version[]>`
      SELECT v.version, ${sql.unsafe(kind.contentColumns)}, ${selectCreatedBy(sql, sql`v.created_by`)}, v.created_at
      ${ofDefinition} ORDER BY v.version DESC LIMIT ${limit} OFFSET ${offset}`
  ])
  // Each definition has a version.
  if (counted[0]!.count === 0) throw notFound()
  return { results, count: counted[0]!.count }
}

/** Definitions with their newest version, as `d` and `v`. */
export function selectDefinitions (sql: SqlTemplates, kind: Kind): Statement {
  return sql`
    SELECT d.id, d.project_id AS team_id, ${sql.unsafe(kind.definitionColumns)}, ${sql.unsafe(kind.contentColumns)},
      d.version, d.first_version, d.active_version, ${selectCreatedBy(sql, sql`d.created_by`)}, d.created_at, d.updated_at
    FROM ${sql.unsafe(kind.table)} AS d
    JOIN ${sql.unsafe(kind.versionsTable)} AS v ON v.${sql.unsafe(kind.parentColumn)} = d.id AND v.version = d.version`
}

/** Matches one that is not deleted. */
export function matchKey (sql: SqlTemplates, kind: Kind, key: DefinitionKey): Statement {
  return sql`${matchName(sql, kind, key)} AND NOT d.deleted`
}

/** Also matches a deleted one. */
function matchName (sql: SqlTemplates, kind: Kind, key: DefinitionKey): Statement {
  const which = 'id' in key ? sql`d.id = ${key.id}` : sql`d.${sql.unsafe(kind.nameColumn)} = ${key.name}`
  return sql`d.project_id = ${key.projectId} AND ${which}`
}
