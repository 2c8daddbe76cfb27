/** How versioned definitions change: each change in a transaction that holds the definition, or the project. */
import { HttpError } from '../../engines/errors.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { notFound } from '../http/errors.ts'
import { type DefinitionKey, type Kind, matchKey, selectDefinitions } from './versioned-definitions.ts'

/** A definition and one of its versions. */
export interface VersionKey {
  id: number
  version: number
}

/** A definition with its newest version, and the first one that is its own. */
export interface StoredVersion extends VersionKey {
  first_version: number
}

/** A definition that a transaction holds. */
export interface LockedDefinition extends StoredVersion {
  /** What its name column has: the event of a schema. */
  name: string
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
): Promise<LockedDefinition> {
  const [stored] = await tx<LockedDefinition[]>`
    SELECT d.id, d.version, d.first_version, d.${tx.unsafe(kind.nameColumn)} AS name
    FROM ${tx.unsafe(kind.table)} AS d WHERE ${matchKey(tx, kind, key)} FOR UPDATE`
  if (stored === undefined) throw notFound()
  return stored
}

/**
 * Refuses another name: stored events and counts belong to the one that it has. The same one passes, because clients
 * send a whole definition back.
 *
 * @param sent  Undefined: the change does not name it.
 * @throws {HttpError} 400 naming the column.
 */
export function refuseRenamed (kind: Kind, { name }: LockedDefinition, sent: unknown): void {
  if (sent === undefined || sent === name) return
  throw invalidField(kind.nameColumn, `The ${kind.nameColumn} of a ${kind.noun} cannot be changed. Create another ${kind.noun}.`)
}

/**
 * Refuses a change that somebody made of another version than the newest. One that leaves everything as it is passes: a
 * request that is sent again because its answer was lost.
 *
 * @param change  Its fields, and the version that it was made of; without that, the last change wins.
 * @throws {HttpError} 409 `conflict`.
 */
export async function refuseOutdated (
  tx: TransactionSql, kind: Kind, stored: StoredVersion, { version, ...fields }: { version?: number }
): Promise<void> {
  if (version === undefined || version === stored.version) return
  const [current] = await tx<Record<string, unknown>[]>`${selectDefinitions(tx, kind)} WHERE d.id = ${stored.id}`
  const change = fields as Record<string, unknown>
  const changesSomething = kind.writable.some((name) =>
    change[name] !== undefined && JSON.stringify(change[name]) !== JSON.stringify(current![name]))
  if (!changesSomething) return
  const [author] = await tx<{ email: string }[]>`
    SELECT u.email FROM ${tx.unsafe(kind.versionsTable)} AS v JOIN users AS u ON u.id = v.created_by
    WHERE v.${tx.unsafe(kind.parentColumn)} = ${stored.id} AND v.version = ${stored.version}`
  throw new HttpError(409, 'invalid_request', 'conflict',
    `The ${kind.noun} has version ${stored.version}${author === undefined ? '' : `, stored by ${author.email}`}; your change is based on ` +
    `version ${version}. Nothing was changed. Read the ${kind.noun} again and decide what holds.`, { attr: 'version' })
}

/** The content of a version; undefined when there is none of this number. */
export async function readVersion (tx: TransactionSql, kind: Kind, of: VersionKey): Promise<unknown> {
  const [found] = await tx<{ content: unknown }[]>`
    SELECT ${tx.unsafe(kind.contentColumn)} AS content FROM ${tx.unsafe(kind.versionsTable)}
    WHERE ${tx.unsafe(kind.parentColumn)} = ${of.id} AND version = ${of.version}`
  return found?.content
}

/** @param userId  Null from the command line. */
export async function insertVersion (
  tx: TransactionSql, kind: Kind, of: VersionKey & { content: unknown, userId: number | null }
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
  tx: TransactionSql, kind: Kind, { id, version, first_version: first }: StoredVersion,
  { active, compile }: { active: number | null | undefined, compile: (content: any) => unknown }
): Promise<void> {
  if (active === undefined) return
  if (active !== null) {
    if (active > version) throw invalidField('active_version', `The newest version is ${version}.`)
    if (active < first) throw invalidField('active_version', `Versions before ${first} are those of a deleted ${kind.noun}.`)
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
