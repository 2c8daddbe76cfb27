/**
 * Definitions with versions (event schemas and rules): a version never changes; another content makes the next one,
 * which is enforced when it is made active. A deleted definition keeps its versions, and counts on from there when one
 * of its name is created.
 */
import { HttpError } from '../platform/errors.ts'
import type { Sql, SqlTemplates, Statement, TransactionSql } from '../platform/postgres/connect-postgres.ts'
import { notFound } from './http/errors.ts'
import { matchSearch } from './http/list-queries.ts'
import type { PageContent, PageQuery } from './http/pagination.ts'
import { selectCreatedBy } from './keys/users.ts'

/** How definitions of a kind are stored, and what answers show of them. */
export interface VersionedKind<Definition, Version> {
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
  /** Types of a row of each; never set. */
  rows?: { definition: Definition, version: Version }
}

/** Any kind, where what answers show does not matter. */
type Kind = VersionedKind<unknown, unknown>

export interface NamedKey {
  projectId: number
  name: string
}

/** Which definition: by its id, or by its name. */
export type DefinitionKey = { projectId: number, id: number } | NamedKey

/** A definition and its newest version. */
export interface StoredVersion {
  id: number
  version: number
}

export interface DefinitionQuery extends PageQuery {
  search?: string
  /** Whether a version is active; undefined: both. */
  active?: boolean
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
 * @throws {HttpError} 404 when the project has no such definition.
 */
export async function listVersions<Version extends object> (
  sql: Sql, kind: VersionedKind<unknown, Version>, { limit, offset, ...key }: DefinitionKey & PageQuery
): Promise<PageContent<Version>> {
  const ofDefinition = sql`FROM ${sql.unsafe(kind.table)} AS d
    JOIN ${sql.unsafe(kind.versionsTable)} AS v ON v.${sql.unsafe(kind.parentColumn)} = d.id
    WHERE ${matchKey(sql, kind, key)}`
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

function selectDefinitions (sql: Sql, kind: Kind): Statement {
  return sql`
    SELECT d.id, d.project_id AS team_id, ${sql.unsafe(kind.definitionColumns)}, ${sql.unsafe(kind.contentColumns)},
      d.version, d.active_version, ${selectCreatedBy(sql, sql`d.created_by`)}, d.created_at, d.updated_at
    FROM ${sql.unsafe(kind.table)} AS d
    JOIN ${sql.unsafe(kind.versionsTable)} AS v ON v.${sql.unsafe(kind.parentColumn)} = d.id AND v.version = d.version`
}

function matchKey (sql: SqlTemplates, kind: Kind, key: DefinitionKey): Statement {
  const which = 'id' in key ? sql`d.id = ${key.id}` : sql`d.${sql.unsafe(kind.nameColumn)} = ${key.name}`
  return sql`d.project_id = ${key.projectId} AND ${which} AND NOT d.deleted`
}

/**
 * Keeps other requests from adding definitions to the project until the transaction ends.
 *
 * @throws {HttpError} 404 when there is no such project.
 */
export async function lockProject (tx: TransactionSql, projectId: number): Promise<void> {
  const rows = await tx`SELECT id FROM projects WHERE id = ${projectId} FOR NO KEY UPDATE`
  if (rows.length === 0) throw notFound()
}

/** @throws {HttpError} 404 when the project has no such definition. */
export async function lockDefinition (
  tx: TransactionSql, kind: Kind, key: DefinitionKey
): Promise<StoredVersion> {
  const [stored] = await tx<StoredVersion[]>`
    SELECT d.id, d.version FROM ${tx.unsafe(kind.table)} AS d WHERE ${matchKey(tx, kind, key)} FOR UPDATE`
  if (stored === undefined) throw notFound()
  return stored
}

/** The content of a version; undefined when there is none of this number. */
export async function readVersion (tx: TransactionSql, kind: Kind, of: StoredVersion): Promise<unknown> {
  const [found] = await tx<{ content: unknown }[]>`
    SELECT ${tx.unsafe(kind.contentColumn)} AS content FROM ${tx.unsafe(kind.versionsTable)}
    WHERE ${tx.unsafe(kind.parentColumn)} = ${of.id} AND version = ${of.version}`
  return found?.content
}

/** @param userId  Null from the command line. */
export async function insertVersion (
  tx: TransactionSql, kind: Kind, of: StoredVersion & { content: unknown, userId: number | null }
): Promise<void> {
  await tx`
    INSERT INTO ${tx.unsafe(kind.versionsTable)}
      (${tx.unsafe(kind.parentColumn)}, version, ${tx.unsafe(kind.contentColumn)}, created_by)
    VALUES (${of.id}, ${of.version}, ${tx.json(of.content)}, ${of.userId})`
}

/**
 * Makes a version the one that ingest enforces.
 *
 * @param active  Null: none; undefined: as it is.
 * @param compile  Throws for a content that this release does not take: an older one may have stored it.
 * @throws {HttpError} 400 for a version that there is not; what `compile` throws.
 */
export async function activateVersion (
  tx: TransactionSql, kind: Kind, { id, version }: StoredVersion,
  { active, compile }: { active: number | null | undefined, compile: (content: any) => unknown }
): Promise<void> {
  if (active === undefined) return
  if (active !== null) {
    if (active > version) throw invalidField('active_version', `The newest version is ${version}.`)
    compile(await readVersion(tx, kind, { id, version: active }))
  }
  await tx`UPDATE ${tx.unsafe(kind.table)} SET active_version = ${active}, updated_at = now() WHERE id = ${id}`
}

/** @throws {HttpError} 404 when the project has no such definition. */
export async function deleteDefinition (
  sql: Sql, kind: Kind, key: DefinitionKey
): Promise<void> {
  const rows = await sql`
    UPDATE ${sql.unsafe(kind.table)} AS d SET deleted = true, active_version = NULL, updated_at = now()
    WHERE ${matchKey(sql, kind, key)} RETURNING d.id`
  if (rows.length === 0) throw notFound()
}

export function invalidField (attr: string, detail: string, code = 'invalid'): HttpError {
  return new HttpError(400, 'validation_error', code, detail, { attr })
}
