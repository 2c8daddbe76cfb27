/**
 * What PostHog's API lists of a project, as curl saves it: pages (`{count, next, results}`), arrays, or one object.
 * Shapes: in its repository `products/feature_flags/backend/api/feature_flag.py` (`FeatureFlagSerializer`) and
 * `filters_schema.py` beside it, and `products/cohorts/backend`; https://posthog.com/docs/api. Read 2026-11-26.
 */
import { fieldsOf, isFields } from '../fields.ts'

export type Fields = Readonly<Record<string, unknown>>

/** The lists that are read, each by the last part of its path in PostHog's API. */
export const POSTHOG_LISTS = [
  'feature_flags', 'cohorts', 'experiments', 'event_definitions', 'property_definitions', 'groups_types'
] as const
export type PosthogList = typeof POSTHOG_LISTS[number]

export interface PosthogProject extends Record<PosthogList, Fields[]> {
  /** IANA name; null when the project itself was not read. */
  timezone: string | null
  /** What of the documents is missing or was not understood, one sentence each. */
  problems: string[]
}

/** What only the items of a list have. */
const MARKS: readonly (readonly [PosthogList, fields: readonly string[]])[] = [
  ['experiments', ['feature_flag_key']], ['feature_flags', ['key', 'filters', 'active']], ['cohorts', ['is_static']],
  ['groups_types', ['group_type', 'group_type_index']], ['property_definitions', ['name', 'is_numerical']],
  ['event_definitions', ['name', 'last_seen_at']]
]

/** The list that an item is of, else the one of the file's name, or that it resembles most; and what it lacks. */
function findList (item: Fields, file: string): { list: PosthogList, missing: readonly string[] } | undefined {
  const lacks = (name: string): boolean => item[name] === undefined
  const likely = MARKS.map(([list, fields]) => ({ list, fields, missing: fields.filter(lacks) }))
    .filter(({ list, fields, missing }) => missing.length < fields.length || file.includes(list))
    .sort((a, b) => a.missing.length - b.missing.length)
  return likely.find(({ list, missing }) => missing.length === 0 || file.includes(list)) ?? likely[0]
}

/**
 * Sorts documents by what they are; their order does not matter, an item that comes twice counts once, and what was
 * deleted is left out.
 *
 * @param documents  Parsed JSON, each with its name for problems.
 * @param problems   Those of reading them.
 */
export function readPosthogProject (
  documents: readonly { name: string, content: unknown }[], problems: string[] = []
): PosthogProject {
  const project: PosthogProject = {
    feature_flags: [], cohorts: [], experiments: [], event_definitions: [], property_definitions: [], groups_types: [],
    timezone: null, problems
  }
  const announced = new Map<PosthogList, number>()
  for (const { name, content } of documents) {
    const page = fieldsOf(content)
    if (typeof page['timezone'] === 'string' && 'api_token' in page) {
      project.timezone = page['timezone']
      continue
    }
    const items: unknown[] = Array.isArray(content) ? content : Array.isArray(page['results']) ? page['results'] : [content]
    const { list, missing = [] } = findList(fieldsOf(items[0]), name) ?? {}
    // A page without items is of the list that its file is named after.
    if (list === undefined || (items.length > 0 && missing.length > 0)) {
      const lacks = list !== undefined && `as a page of ${list} it lacks ${missing.join(', ')}, which PostHog's API returns`
      const unknown = `expected the project or a page of ${POSTHOG_LISTS.join(', ')}`
      if (items.length > 0 || Number(page['count'] ?? 0) > 0) problems.push(`${name} is not recognized: ${lacks || unknown}`)
      continue
    }
    const objects = items.filter(isFields)
    for (const object of objects) project[list].push(object)
    if (objects.length < items.length) problems.push(`${name}: ${items.length - objects.length} of ${items.length} items are not objects`)
    if (typeof page['count'] === 'number') announced.set(list, page['count'])
  }
  for (const list of POSTHOG_LISTS) {
    const items = project[list].length
    project[list] = [...new Map(project[list].map((item) => [item['id'] ?? item['group_type_index'], item])).values()]
    const count = announced.get(list) ?? 0
    if (project[list].length < count) problems.push(`${list}: the files have ${project[list].length} of ${count}; ${items < count ? 'also save the pages behind "next"' : 'some are in them more than once'}`)
    project[list] = project[list].filter(({ deleted }) => deleted !== true)
  }
  return project
}

/** A part of a project that cannot be carried over; the message says why. */
export class NotCarriedOverError extends Error {}

export function refuse (reason: string): never {
  throw new NotCarriedOverError(reason)
}

/**
 * Items in an order in which each comes behind those that it names; items of a circle come last.
 *
 * @param idsOf  What an item names.
 */
export function inOrderOfNames<T> (
  items: readonly T[], idOf: (item: T) => string, idsOf: (item: T) => readonly string[]
): T[] {
  const byId = new Map(items.map((item) => [idOf(item), item]))
  const ordered = new Set<T>()
  const entered = new Set<T>()
  const visit = (item: T | undefined): void => {
    if (item === undefined || entered.has(item)) return
    entered.add(item)
    for (const id of idsOf(item)) visit(byId.get(id))
    ordered.add(item)
  }
  items.forEach(visit)
  return [...ordered]
}
