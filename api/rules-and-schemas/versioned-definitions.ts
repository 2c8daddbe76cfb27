import type { CountedDefinition } from './definition-counts.ts'
import type { Sql, SqlTemplates, Statement } from '../../platform/postgres/connect-postgres.ts'
import { notFound, orNotFound } from '../http/answer-errors.ts'
import { optional, type Value } from '../http/json-schema.ts'
import { byName, matchSearch, newestBy, searchQueryProperties, selectPage } from '../http/list-queries.ts'
import type { PageContent } from '../http/pagination.ts'
import type { Access } from '../http/personal-key-access.ts'
import { pageQuery } from '../http/routes.ts'
import { selectCreatedBy } from '../projects/users.ts'
import type { AnyKind, DefinitionKind } from './definition-kind.ts'

export const versionsQuery = pageQuery({
  deleted: { type: 'boolean', description: 'true: include versions of deleted ones of this name, which may have checked events. Default: false.' },
  version: { type: 'integer', minimum: 1, maximum: 2_147_483_647, description: 'Only this version.' }
})

/** The list of definitions; `noun` is what they are. */
export function definitionsQuery (noun: string) {
  return pageQuery({
    ...searchQueryProperties,
    active: { type: 'boolean', description: `true: only ${noun}s with an active version; false: only those without. Default: both.` }
  })
}

/** What counts by definition can be limited to. */
export const countsQuery = optional({
  days: { type: 'integer', minimum: 1, maximum: 90, description: 'Days before now; default 7.' }
})

export interface DefinitionKey { projectId: number, id: number }

/** Lists the definitions of a project with their newest version. */
export async function listDefinitions<Definition extends object> (
  sql: Sql, kind: DefinitionKind<Definition, unknown, any>,
  query: Value<ReturnType<typeof definitionsQuery>>, access: Access
): Promise<PageContent<Definition>> {
  const { columns, from } = partsOf(sql, kind)
  return await selectPage<Definition>(sql, query, {
    order: kind.table, select: columns, from,
    keys: kind.order.flatMap(({ column, kind }) => {
      const by = sql.unsafe(column)
      return kind === 'text' ? byName(sql, { name: by, id: sql`d.id` }, access) : { by, kind }
    }),
    where: sql`d.project_id = ${access.projectId} AND NOT d.deleted
      AND (${query.active ?? null}::boolean IS NULL OR (d.active_version IS NOT NULL) = ${query.active ?? null})
      AND ${matchSearch(sql, sql`d.${sql.unsafe(kind.nameColumn)}`, query.search, access)}`
  })
}

/** What counting the events of definitions needs: of all of a project, without their content. */
export async function listCounted<Definition extends CountedDefinition> (
  sql: Sql, kind: DefinitionKind<Definition, unknown, any>, projectId: number
): Promise<(CountedDefinition & Pick<Definition, Extract<keyof Definition, 'event'>>)[]> {
  return await sql`
    SELECT d.id, d.first_version, d.created_at, ${sql.unsafe(ownColumns(kind))} FROM ${sql.unsafe(kind.table)} AS d
    WHERE d.project_id = ${projectId} AND NOT d.deleted ORDER BY ${sql.unsafe(kind.order.map(({ column }) => column).join(', '))}`
}

/** The definition with its newest version. @throws {HttpError} 404 when the project has no such definition. */
export async function findDefinition<Definition extends object> (
  sql: Sql, kind: DefinitionKind<Definition, unknown, any>, key: DefinitionKey
): Promise<Definition> {
  const [found] = await sql<Definition[]>`${selectDefinitions(sql, kind)} WHERE ${matchKey(sql, key)}`
  return orNotFound(found)
}

/**
 * Lists the versions of a definition, newest first.
 *
 * @throws {HttpError} 404 when the project has no such definition, or it has no such version.
 */
export async function listVersions<Version extends { version: number }> (
  sql: Sql, kind: DefinitionKind<unknown, Version, any>, query: DefinitionKey & Value<typeof versionsQuery>
): Promise<PageContent<Version>> {
  const { deleted = false, version = null } = query
  const page = await selectPage<Version>(sql, query, {
    order: 'newest version', keys: newestBy(sql`v.version`),
    select: sql`v.version, ${sql.unsafe(kind.contentColumns)}, ${selectCreatedBy(sql, sql`v.created_by`)}, v.created_at`,
    from: sql`${sql.unsafe(kind.table)} AS d JOIN ${sql.unsafe(kind.versionsTable)} AS v ON v.${sql.unsafe(kind.parentColumn)} = d.id`,
    where: sql`d.project_id = ${query.projectId} AND d.id = ${query.id}
      AND (${deleted}::boolean OR (v.version >= d.first_version AND NOT d.deleted))
      AND (${version}::integer IS NULL OR v.version = ${version})`
  })
  if (page.count === 0) throw notFound()
  return page
}

/** Definitions with their newest version, as `d` and `v`. */
export function selectDefinitions (sql: SqlTemplates, kind: AnyKind): Statement {
  const { columns, from } = partsOf(sql, kind)
  return sql`SELECT ${columns} FROM ${from}`
}

function partsOf (sql: SqlTemplates, kind: AnyKind): { columns: Statement, from: Statement } {
  return {
    columns: sql`d.id, d.project_id AS team_id, ${sql.unsafe(ownColumns(kind))}, ${sql.unsafe(kind.contentColumns)},
      d.version, d.first_version, d.active_version, ${selectCreatedBy(sql, sql`d.created_by`)}, d.created_at, d.updated_at`,
    from: sql`${sql.unsafe(kind.table)} AS d
      JOIN ${sql.unsafe(kind.versionsTable)} AS v ON v.${sql.unsafe(kind.parentColumn)} = d.id AND v.version = d.version`
  }
}

/** Name and columns of its own, of `d`. */
function ownColumns ({ nameColumn, columns }: AnyKind): string {
  return [nameColumn, ...columns].map((column) => `d.${column}`).join(', ')
}

export function matchKey (sql: SqlTemplates, { projectId, id }: DefinitionKey): Statement {
  return sql`d.project_id = ${projectId} AND d.id = ${id} AND NOT d.deleted`
}
