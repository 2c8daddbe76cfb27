/** How rules and event schemas change: each change in a transaction that holds the definition, or the project. */
import { HttpError, invalidField } from '../../engines/errors.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { notFound, orNotFound } from '../http/answer-errors.ts'
import type { AnyKind, DefinitionFields, DefinitionKind } from './definition-kind.ts'
import { type DefinitionKey, findDefinition, matchKey, selectDefinitions } from './versioned-definitions.ts'

interface StoredDefinition {
  id: number
  version: number
  first_version: number
}

interface ChangedBy { userId: number }

/**
 * Creates a definition with its first version, whose number goes on from that of a deleted one of the same name.
 *
 * @throws {HttpError} 404 when there is no such project; 400 naming the invalid field in `attr`, levels joined by `__`.
 */
export async function createDefinition<Definition extends object> (
  sql: Sql, kind: DefinitionKind<Definition, unknown, any>, { projectId, userId }: ChangedBy & { projectId: number },
  fields: DefinitionFields
): Promise<Definition> {
  const { nameColumn, noun } = kind
  const name = String(fields[nameColumn])
  if (name.trim() === '') throw invalidField(nameColumn, 'This field may not be blank.', 'blank')
  kind.checkName(name)
  const content: unknown = kind.readContent(fields)
  kind.compile(content)
  const id = await sql.begin(async (tx) => {
    await lockProject(tx, projectId)
    const table = tx.unsafe(kind.table)
    const [counted] = await tx<{ count: number }[]>`
      SELECT count(*)::integer AS count FROM ${table} WHERE project_id = ${projectId} AND NOT deleted`
    if ((counted?.count ?? 0) >= kind.limit) throw invalidField(nameColumn, `A project has at most ${kind.limit} ${noun}s.`, 'invalid')
    const own = { ...await kind.defaults(tx, projectId), ...ownFields(kind, fields), created_by: userId }
    const [stored] = await tx<StoredDefinition[]>`
      INSERT INTO ${table} AS d ${tx({ project_id: projectId, [nameColumn]: name, ...own })}
      ON CONFLICT (project_id, ${tx.unsafe(nameColumn)}) DO UPDATE SET ${tx({ ...own, deleted: false })},
        version = d.version + 1, first_version = d.version + 1, created_at = now(), updated_at = now()
      WHERE d.deleted
      RETURNING id, version, first_version`
    if (stored === undefined) throw invalidField(nameColumn, `There is already a ${noun} ${kind.ofName}.`, 'unique')
    await insertVersion(tx, kind, stored, { content, userId })
    await activateVersion(tx, kind, stored, fields.active_version)
    return stored.id
  })
  return await findDefinition(sql, kind, { projectId, id })
}

/**
 * Changes the given fields; another content makes a version, which is not active by that.
 *
 * @throws {HttpError} 404; 400 naming the invalid field in `attr`; 409 when there is a newer version than the change is
 *   based on.
 */
export async function updateDefinition<Definition extends object> (
  sql: Sql, kind: DefinitionKind<Definition, unknown, any>, key: DefinitionKey,
  { fields, userId }: ChangedBy & { fields: DefinitionFields }
): Promise<Definition> {
  await sql.begin(async (tx) => {
    const stored = await lockDefinition(tx, kind, key)
    refuseRenamed(kind, stored.name, fields[kind.nameColumn])
    await refuseOutdated(tx, kind, stored, fields)
    const changed = { ...stored, version: await addVersion(tx, kind, stored, { fields, userId }) }
    await tx`UPDATE ${tx.unsafe(kind.table)} SET ${tx({ ...ownFields(kind, fields), version: changed.version })},
      updated_at = now() WHERE id = ${stored.id}`
    await activateVersion(tx, kind, changed, fields.active_version)
  })
  return await findDefinition(sql, kind, key)
}

/** @throws {HttpError} 404 when the project has no such definition. */
export async function deleteDefinition (sql: Sql, kind: AnyKind, key: DefinitionKey): Promise<void> {
  const rows = await sql`
    UPDATE ${sql.unsafe(kind.table)} AS d SET deleted = true, active_version = NULL, updated_at = now()
    WHERE ${matchKey(sql, key)} RETURNING d.id`
  if (rows.length === 0) throw notFound()
}

/** Keeps other requests from adding definitions to the project until the transaction ends. */
async function lockProject (tx: TransactionSql, projectId: number): Promise<void> {
  const rows = await tx`SELECT id FROM projects WHERE id = ${projectId} FOR NO KEY UPDATE`
  if (rows.length === 0) throw notFound()
}

async function lockDefinition (
  tx: TransactionSql, kind: AnyKind, key: DefinitionKey
): Promise<StoredDefinition & { name: string }> {
  const [stored] = await tx<(StoredDefinition & { name: string })[]>`
    SELECT d.id, d.version, d.first_version, d.${tx.unsafe(kind.nameColumn)} AS name
    FROM ${tx.unsafe(kind.table)} AS d WHERE ${matchKey(tx, key)} FOR UPDATE`
  return orNotFound(stored)
}

/**
 * Refuses another name: stored events and counts belong to the one that it has. The same one passes, because clients
 * send a whole definition back.
 *
 * @param sent  Undefined: the change does not name it.
 */
function refuseRenamed ({ noun, nameColumn }: AnyKind, name: string, sent: unknown): void {
  if (sent === undefined || sent === name) return
  throw invalidField(nameColumn, `The ${nameColumn} of a ${noun} cannot be changed. Create another ${noun}.`, 'invalid')
}

/**
 * Refuses a change that somebody made of another version than the newest. One that leaves everything as it is passes: a
 * request that is sent again because its answer was lost.
 */
async function refuseOutdated (
  tx: TransactionSql, kind: AnyKind, stored: StoredDefinition, change: DefinitionFields
): Promise<void> {
  const { version } = change
  if (version === undefined || version === stored.version) return
  const [current = {}] = await tx<Record<string, unknown>[]>`${selectDefinitions(tx, kind)} WHERE d.id = ${stored.id}`
  const changesSomething = kind.writable.some((name) =>
    change[name] !== undefined && JSON.stringify(change[name]) !== JSON.stringify(current[name]))
  if (!changesSomething) return
  const [author] = await tx<{ email: string }[]>`
    SELECT u.email FROM ${tx.unsafe(kind.versionsTable)} AS v JOIN users AS u ON u.id = v.created_by
    WHERE v.${tx.unsafe(kind.parentColumn)} = ${stored.id} AND v.version = ${stored.version}`
  throw new HttpError(409, 'invalid_request', 'conflict',
    `The ${kind.noun} has version ${stored.version}${author === undefined ? '' : `, stored by ${author.email}`}; your change is based on ` +
    `version ${version}. Nothing was changed. Reload the ${kind.noun} and resolve the conflict.`, { attr: 'version' })
}

/** Stores what the change makes of the newest version, if that is something else. @returns the newest version. */
async function addVersion (
  tx: TransactionSql, kind: AnyKind, { id, version }: StoredDefinition,
  { fields, userId }: ChangedBy & { fields: DefinitionFields }
): Promise<number> {
  const content: unknown = kind.readContent(fields, await readVersion(tx, kind, { id, version }))
  if (content === undefined) return version
  kind.compile(content)
  // As text: the driver would round long numbers of the stored version.
  const [newest] = await tx<{ isSame: boolean }[]>`
    SELECT ${tx.unsafe(kind.contentColumn)}::text = ${tx.json(content)}::json::text AS "isSame"
    FROM ${tx.unsafe(kind.versionsTable)} WHERE ${tx.unsafe(kind.parentColumn)} = ${id} AND version = ${version}`
  if (newest?.isSame === true) return version
  await insertVersion(tx, kind, { id, version: version + 1 }, { content, userId })
  return version + 1
}

async function readVersion (
  tx: TransactionSql, kind: AnyKind, of: Pick<StoredDefinition, 'id' | 'version'>
): Promise<unknown> {
  const [found] = await tx<{ content: unknown }[]>`
    SELECT ${tx.unsafe(kind.contentColumn)} AS content FROM ${tx.unsafe(kind.versionsTable)}
    WHERE ${tx.unsafe(kind.parentColumn)} = ${of.id} AND version = ${of.version}`
  return found?.content
}

async function insertVersion (
  tx: TransactionSql, kind: AnyKind, { id, version }: Pick<StoredDefinition, 'id' | 'version'>,
  { content, userId }: ChangedBy & { content: unknown }
): Promise<void> {
  await tx`INSERT INTO ${tx.unsafe(kind.versionsTable)} ${tx({
    [kind.parentColumn]: id, version, [kind.contentColumn]: tx.json(content), created_by: userId
  })}`
}

/**
 * Makes a version the one that ingest enforces. It is compiled first: an older release may have stored it.
 *
 * @param active  Null: none; undefined: as it is.
 */
async function activateVersion (
  tx: TransactionSql, kind: AnyKind, { id, version, first_version: first }: StoredDefinition,
  active: number | null | undefined
): Promise<void> {
  if (active === undefined) return
  if (active !== null) {
    if (active > version) throw invalidField('active_version', `The newest version is ${version}.`, 'invalid')
    if (active < first) throw invalidField('active_version', `Versions before ${first} are those of a deleted ${kind.noun}.`, 'invalid')
    kind.compile(await readVersion(tx, kind, { id, version: active }))
  }
  await tx`UPDATE ${tx.unsafe(kind.table)} SET active_version = ${active}, updated_at = now() WHERE id = ${id}`
}

function ownFields ({ columns }: AnyKind, fields: DefinitionFields): Record<string, unknown> {
  return Object.fromEntries(columns.filter((name) => fields[name] !== undefined).map((name) => [name, fields[name]]))
}
