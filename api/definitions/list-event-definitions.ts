import type { Sql, Statement } from '../../platform/postgres/connect-postgres.ts'
import { type CursorKind, cutPage, decodeCursor, encodeCursor, matchSearch } from '../http/list-queries.ts'
import type { PageQuery } from '../http/pagination.ts'
import { type DefinitionPage, type DefinitionTotals, selectFreshness } from './definition-page.ts'
import { matchNotes, type NoteFilters } from './definition-notes.ts'
import { type EventDefinition, selectEventDefinition } from './event-definition.ts'

/** Which events to list: all, those of SDKs (`$pageview`), or custom ones. */
export const EVENT_TYPES = ['all', 'event', 'event_custom', 'event_posthog'] as const

export const EVENT_ORDERINGS = [
  'name', '-name', 'volume_30_day', '-volume_30_day', 'last_seen_at', '-last_seen_at'
] as const

export interface EventDefinitionQuery extends PageQuery, NoteFilters {
  search?: string
  event_type: typeof EVENT_TYPES[number]
  ordering: typeof EVENT_ORDERINGS[number]
  after?: string
}

export type EventDefinitionPage = DefinitionPage<EventDefinition>

/**
 * Lists a page of event definitions with two queries.
 *
 * Names are unique, so every order ends with the name and has no ties. Names compare by their bytes.
 */
export async function listEventDefinitions (
  sql: Sql, projectId: number, query: EventDefinitionQuery
): Promise<EventDefinitionPage> {
  const where = sql`d.project_id = ${projectId} AND d.deleted_at IS NULL AND ${matchType(sql, query.event_type)}
    AND ${matchSearch(sql, sql`d.name`, query.search)} AND ${matchNotes(sql, query)}`
  const order = buildOrder(sql, query.ordering)
  const after = decodeCursor(query.after, query.ordering, [order.kind, 'text'])

  const [totals, rows] = await Promise.all([
    sql<DefinitionTotals[]>`
      SELECT count(*) AS count, ${selectFreshness(sql, projectId)} FROM event_definitions d WHERE ${where}`,
    sql<(EventDefinition & { sort_key: string })[]>`
      SELECT ${selectEventDefinition(sql)}, (${order.key})::text AS sort_key
      FROM event_definitions d
      WHERE ${where} AND ${after === undefined ? sql`true` : order.isAfter(after)}
      ORDER BY ${order.by}
      LIMIT ${query.limit + 1} OFFSET ${after === undefined ? query.offset : 0}`
  ])
  const page = cutPage(rows, {
    limit: query.limit,
    count: totals[0]?.count ?? 0,
    cursorOf: (last) => encodeCursor(query.ordering, [last.sort_key, last.name])
  })
  return { ...page, asOf: totals[0]?.as_of ?? null, completeThrough: totals[0]?.complete_through ?? null }
}

function matchType (sql: Sql, type: EventDefinitionQuery['event_type']): Statement {
  if (type === 'event_custom') return sql`d.name NOT LIKE '$%'`
  return type === 'event_posthog' ? sql`d.name LIKE '$%'` : sql`true`
}

interface Order {
  /** The first sort key; the name is the second. */
  key: Statement
  /** Type of the key in a cursor. */
  kind: CursorKind
  by: Statement
  isAfter: (cursor: string[]) => Statement
}

function buildOrder (sql: Sql, ordering: EventDefinitionQuery['ordering']): Order {
  const descends = ordering.startsWith('-')
  const direction = descends ? sql`DESC` : sql`ASC`
  const compare = descends ? sql`<` : sql`>`
  const name = sql`d.name COLLATE "C"`
  switch (ordering) {
    case 'name':
    case '-name':
      return {
        key: sql`''`,
        kind: 'text',
        by: sql`${name} ${direction}`,
        isAfter: ([, last]) => sql`${name} ${compare} ${last ?? ''}`
      }
    case 'volume_30_day':
    case '-volume_30_day':
      return orderBy(sql`d.volume_30_day`, 'integer', (text) => sql`${text}::bigint`)
    default:
      // Definitions that were never seen count as the oldest. Cast by way of text, or the driver would read the
      // parameter as a Date and drop its microseconds.
      return orderBy(sql`COALESCE(d.last_seen_at, '-infinity')`, 'time', (text) => sql`${text}::text::timestamptz`)
  }

  function orderBy (key: Statement, kind: CursorKind, read: (text: string) => Statement): Order {
    return {
      key,
      kind,
      by: sql`${key} ${direction}, ${name}`,
      isAfter: ([value = '', last = '']) => sql`(${key} ${compare} ${read(value)} OR (${key} = ${read(value)} AND ${name} > ${last}))`
    }
  }
}
