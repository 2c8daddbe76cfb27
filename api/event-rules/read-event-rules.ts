import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { notFound } from '../http/errors.ts'
import { matchSearch } from '../http/list-queries.ts'
import type { PageContent, PageQuery } from '../http/pagination.ts'
import { selectCreatedBy } from '../keys/users.ts'
import { type EventRule, type EventRuleVersion, selectEventRule } from './event-rule.ts'

export interface EventRuleQuery extends PageQuery {
  search?: string
  active?: boolean
}

/** Which rule: by its id, or by its name. */
export type RuleKey = { projectId: number } & ({ id: number } | { name: string })

/** The rules with their newest version. */
function fromRules (sql: Sql): Statement {
  return sql`event_rules AS r JOIN event_rule_versions AS v ON v.rule_id = r.id AND v.version = r.version`
}

/** Lists the rules of a project in the order in which they run. There are at most 200. */
export async function listEventRules (
  sql: Sql, projectId: number, query: EventRuleQuery
): Promise<PageContent<EventRule>> {
  const matches = sql`r.project_id = ${projectId} AND NOT r.deleted
    AND (${query.active ?? null}::boolean IS NULL OR (r.active_version IS NOT NULL) = ${query.active ?? null})
    AND ${matchSearch(sql, sql`r.name`, query.search)}`
  const [counted, results] = await Promise.all([
    sql<{ count: number }[]>`SELECT count(*)::integer AS count FROM event_rules AS r WHERE ${matches}`,
    sql<EventRule[]>`SELECT ${selectEventRule(sql)} FROM ${fromRules(sql)} WHERE ${matches}
      ORDER BY r.position, r.id LIMIT ${query.limit} OFFSET ${query.offset}`
  ])
  return { results, count: counted[0]!.count }
}

/** @throws {HttpError} 404 when the project has no such rule. */
export async function findEventRule (sql: Sql, key: RuleKey): Promise<EventRule> {
  const which = 'id' in key ? sql`r.id = ${key.id}` : sql`r.name = ${key.name}`
  const [found] = await sql<EventRule[]>`
    SELECT ${selectEventRule(sql)} FROM ${fromRules(sql)}
    WHERE r.project_id = ${key.projectId} AND ${which} AND NOT r.deleted`
  if (found === undefined) throw notFound()
  return found
}

/**
 * Lists the versions of a rule, newest first.
 *
 * @throws {HttpError} 404 when the project has no such rule.
 */
export async function listRuleVersions (
  sql: Sql, key: RuleKey, query: PageQuery
): Promise<PageContent<EventRuleVersion>> {
  const { id } = await findEventRule(sql, key)
  const [counted, results] = await Promise.all([
    sql<{ count: number }[]>`SELECT count(*)::integer AS count FROM event_rule_versions WHERE rule_id = ${id}`,
    sql<EventRuleVersion[]>`
      SELECT v.version, v.definition->'condition' AS condition, v.definition->'actions' AS actions,
        COALESCE(v.definition->'tests', '[]'::json) AS tests, ${selectCreatedBy(sql, sql`v.created_by`)}, v.created_at
      FROM event_rule_versions AS v WHERE v.rule_id = ${id}
      ORDER BY v.version DESC LIMIT ${query.limit} OFFSET ${query.offset}`
  ])
  return { results, count: counted[0]!.count }
}
