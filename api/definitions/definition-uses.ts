/** What depends on a definition: questions, saved queries, flags and experiments that name it, and boards. */
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import { quoteString } from '../../engines/clickhouse-sql.ts'
import { allowsScope } from '../../schema/scopes.ts'
import { type Metric, readMetric, readSecondaryMetrics } from '../experiments/results/read-metric.ts'
import { object, type Value } from '../http/json-schema.ts'

/** Something that names a definition, as its own list shows it. */
export interface User { id: number, name: string }

/** Null: the key may not see these. */
export type DefinitionUses = Value<typeof definitionUsesSchema>

/** A definition that may be used. */
export interface UsedDefinition {
  projectId: number
  kind: 'event' | 'event_property' | 'person_property' | 'group_property'
  name: string
}

const userListSchema = (what: string) => ({
  type: ['array', 'null'],
  description: `${what}; null when the key may not read them.`,
  items: object({ id: { type: 'integer' }, name: { type: 'string' } })
}) as const

export const definitionUsesSchema = object({
  questions: userListSchema('Questions that count it, or have a condition on it or a breakdown by it'),
  boards: userListSchema('Boards with such a question or saved query'),
  saved_queries: userListSchema('Saved queries that have its name as a string or as the value of a parameter'),
  feature_flags: userListSchema('Flags with a condition on it; flags have no conditions on events and their properties'),
  experiments: userListSchema('Experiments with a metric of it')
})

/**
 * Finds them.
 *
 * @param scopes  Of the key that asks.
 */
export async function findUses (
  sql: Sql, definition: UsedDefinition, { scopes }: { scopes: readonly string[] }
): Promise<DefinitionUses> {
  const mayQuery = allowsScope(scopes, 'query:read')
  const [questions, savedQueries, flags, experiments] = await Promise.all([
    mayQuery ? findQuestions(sql, definition) : null,
    mayQuery ? findSavedQueries(sql, definition) : null,
    allowsScope(scopes, 'feature_flag:read') ? findFlags(sql, definition) : null,
    allowsScope(scopes, 'experiment:read') ? findExperiments(sql, definition) : null
  ])
  const onBoards = { question: questions ?? [], saved_query: savedQueries ?? [] }
  const boards = mayQuery ? await findBoards(sql, definition, onBoards) : null
  return { questions, boards, saved_queries: savedQueries, feature_flags: flags, experiments }
}

async function findQuestions (sql: Sql, { projectId, kind, name }: UsedDefinition): Promise<User[]> {
  if (kind !== 'event' && kind !== 'event_property') return []
  // Names stand in these fields of a definition, wherever in it these are.
  const fields = kind === 'event' ? ['event'] : ['property', 'key']
  return await sql<User[]>`
    SELECT q.id, q.name FROM questions q
    WHERE q.project_id = ${projectId} AND EXISTS (
      SELECT FROM jsonb_path_query(q.definition, 'strict $.** ? (@.type() == "object")') AS part, unnest(${fields}::text[]) AS field
      WHERE part ->> field = ${name})
    ORDER BY q.name`
}

async function findBoards (
  sql: Sql, { projectId }: UsedDefinition, users: Record<'question' | 'saved_query', User[]>
): Promise<User[]> {
  const tiles = Object.entries(users).flatMap(([kind, list]) => list.map(({ id }) => `${kind} ${id}`))
  return await sql<User[]>`
    SELECT b.id, b.name FROM boards b
    WHERE b.project_id = ${projectId} AND EXISTS (
      SELECT FROM jsonb_array_elements(b.tiles) AS tile WHERE concat(tile ->> 'kind', ' ', tile ->> 'id') = ANY(${tiles}))
    ORDER BY b.name`
}

/** By the name in the text alone: a query may mean something else by it, and may have it by way of a column. */
async function findSavedQueries (sql: Sql, { projectId, name }: UsedDefinition): Promise<User[]> {
  // As a string literal, and as the value of a parameter, which is one in JSON.
  const literal = quoteString(name)
  return await sql<User[]>`
    SELECT id, name FROM saved_queries
    WHERE project_id = ${projectId} AND (
      strpos(query, ${literal}) > 0
      OR EXISTS (SELECT FROM jsonb_each_text(parameters) AS parameter WHERE parameter.value = ${name}))
    ORDER BY name`
}

/** Conditions of flags are on persons and groups. */
async function findFlags (sql: Sql, { projectId, kind, name }: UsedDefinition): Promise<User[]> {
  if (kind !== 'person_property' && kind !== 'group_property') return []
  return await sql<User[]>`
    SELECT f.id, f.key AS name FROM feature_flags f
    WHERE f.project_id = ${projectId} AND NOT f.deleted AND EXISTS (
      SELECT FROM jsonb_path_query(f.filters, 'lax $.groups[*].properties[*]') AS condition
      WHERE condition ->> 'key' = ${name} AND coalesce(condition ->> 'type', 'person') = ${kind === 'person_property' ? 'person' : 'group'})
    ORDER BY f.key`
}

async function findExperiments (sql: Sql, definition: UsedDefinition): Promise<User[]> {
  const { projectId, name } = definition
  const rows = await sql<(User & { filters: unknown, secondary_metrics: unknown })[]>`
    SELECT id, name, filters, secondary_metrics FROM experiments
    WHERE project_id = ${projectId} AND NOT deleted
      AND EXISTS (SELECT FROM jsonb_path_query(jsonb_build_array(filters, secondary_metrics), 'strict $.**') AS value
        WHERE jsonb_typeof(value) = 'string' AND value #>> '{}' = ${name})
    ORDER BY name, id`
  return rows
    .filter((row) => readMetrics(row).some((metric) => isMetricOf(metric, definition)))
    .map(({ id, name: title }) => ({ id, name: title }))
}

/** The metrics that can be computed; an experiment with one that cannot be understood has no results either. */
function readMetrics (
  { filters, secondary_metrics: secondary }: { filters: unknown, secondary_metrics: unknown }
): Metric[] {
  const all: Metric[] = []
  for (const read of [() => readMetric('filters', filters), () => readSecondaryMetrics(secondary)]) {
    try {
      all.push(...[read() ?? []].flat())
    } catch {
      // Its own page says what is wrong with it.
    }
  }
  return all
}

function isMetricOf ({ steps, property }: Metric, { kind, name }: UsedDefinition): boolean {
  if (kind === 'event') return steps.some(({ event }) => event === name)
  if (kind !== 'event_property') return false
  return property === name || steps.some(({ where }) => where.some(({ key }) => key === name))
}
