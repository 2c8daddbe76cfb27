import type { Promotion } from './promoted-column.ts'
import { findNames, type NamesInQuery } from '../../engines/sql/find-names.ts'
import { EVENT_COLUMNS } from '../../schema/wire/event-row.ts'

export type UsageKind = 'event' | 'event_property' | 'person_property' | 'group_property'

/** All definitions: by kind and name, the projects that have one. */
export type Vocabulary = Record<UsageKind, ReadonlyMap<string, ReadonlySet<number>>>

/** The property of each column that has one, by column. */
export type PropertyColumns = ReadonlyMap<string, string>

/** A definition that a query names. */
export interface NamedDefinition {
  what: UsageKind
  projectId: number
  name: string
}

/** Tables with a column `event`. */
const EVENT_TABLES = new Set([
  'events', 'events_with_person', 'event_volumes', 'event_volumes_daily', 'event_volumes_by_day', 'event_properties',
  'event_property_counts'
])

/** Tables with the columns of properties. */
const COLUMN_TABLES = new Set(['events', 'events_with_person'])

/** The columns that ingest fills, and those of promoted properties. */
export function propertyColumns (promoted: readonly Promotion[]): PropertyColumns {
  return new Map([
    ...EVENT_COLUMNS.flatMap((column) => 'promotes' in column ? [[column.name, column.promotes] as const] : []),
    ...promoted.map(({ column, property }) => [column, property] as const)
  ])
}

/**
 * The definitions that a SELECT names, each once:
 *
 * - an event: a string literal equal to its name, in a query that reads a table with events;
 * - a property: the literal by which a JSON function reads it from `properties` of its table, or its column.
 *
 * Only those of the projects that the query compares `project_id` with; those of all projects when it names none.
 */
export function nameDefinitions (
  query: string, vocabulary: Vocabulary, columns: PropertyColumns
): NamedDefinition[] {
  const names = findNames(query)
  const found: NamedDefinition[] = []
  const add = (what: UsageKind, name: string): void => {
    for (const projectId of vocabulary[what].get(name) ?? []) {
      if (names.projects?.has(projectId) ?? true) found.push({ what, projectId, name })
    }
  }
  if (readsAny(names, EVENT_TABLES)) {
    for (const text of names.texts) add('event', text)
  }
  const properties: Record<Exclude<UsageKind, 'event'>, Set<string>> = { event_property: new Set(), person_property: new Set(), group_property: new Set() }
  for (const { property, kinds } of names.properties) {
    for (const kind of kinds) properties[`${kind}_property`].add(property)
  }
  if (readsAny(names, COLUMN_TABLES)) {
    for (const column of names.columns) {
      const property = columns.get(column)
      if (property !== undefined) properties.event_property.add(property)
    }
  }
  for (const what of ['event_property', 'person_property', 'group_property'] as const) {
    for (const name of properties[what]) add(what, name)
  }
  return found
}

function readsAny ({ tables }: NamesInQuery, some: ReadonlySet<string>): boolean {
  return [...tables].some((table) => some.has(table))
}
