/** What was erased, without naming anybody: salted hashes of distinct ids, and filters with hashes of values. */
import { hash, randomBytes } from 'node:crypto'
import { isExactNumber } from '../../engines/body/parse-json.ts'
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { personUuid } from './identity.ts'

/** What the events of an erasure have in common; each field must match. */
export interface EventFilter {
  event?: string
  /** As in `events.person_id`. */
  persons?: string[]
  property?: string
  /** Of the property: a string as it is, other values as JSON. */
  value?: string
  groupType?: string
  groupKey?: string
  /** Event time, epoch milliseconds. */
  from?: number
  /** Exclusive. */
  to?: number
}

/** The same in a record: `value` and `groupKey` are hashes with a salt of its own. */
export interface ErasedEvents extends EventFilter {
  salt: string
}

/** The erasures of a project. */
export interface ErasedIds {
  salt: string
  /** When each distinct id was erased, by hash, epoch milliseconds. */
  at: ReadonlyMap<string, number>
  /** Erasures by filter, with their times. */
  filters: readonly { filter: ErasedEvents, at: number }[]
  /** The latest of all times: nothing that happened later needs a look. */
  latest: number
}

/** A row of `erasures`. */
export interface ErasureRow {
  project_id: number
  salt: string
  hashes: string[]
  requested_at: Date
  filter?: ErasedEvents | null
  removed_properties?: string[] | null
}

/** By project. */
export function toErasedIds (rows: readonly ErasureRow[]): Map<number, ErasedIds> {
  return new Map([...Map.groupBy(rows, (row) => row.project_id)].map(([project, own]) => {
    const at = new Map<string, number>()
    for (const { hashes, requested_at: requested } of own) {
      for (const each of hashes) at.set(each, Math.max(at.get(each) ?? 0, requested.getTime()))
    }
    const filters = own.flatMap(({ filter, requested_at: requested }) =>
      filter == null ? [] : [{ filter, at: requested.getTime() }])
    const latest = own.reduce((most, { requested_at: requested }) => Math.max(most, requested.getTime()), -Infinity)
    return [project, { salt: own[0]?.salt ?? '', at, filters, latest }]
  }))
}

/** Whether something that a distinct id did at this time was erased. */
export function isErased (
  { salt, at, latest }: ErasedIds, projectId: number, distinctId: string, time: number
): boolean {
  return time <= latest && time <= (at.get(hashErased(salt, projectId, distinctId)) ?? -1)
}

export interface ErasableEvent {
  event: string
  distinctId: string
  timestamp: number
  properties: Readonly<Record<string, unknown>>
  /** Type, key, type, key, ... */
  groups: readonly string[]
}

/** Whether an event is one of those that were erased by a filter. */
export function isErasedByFilter ({ filters, latest }: ErasedIds, projectId: number, event: ErasableEvent): boolean {
  return event.timestamp <= latest &&
    filters.some(({ filter, at }) => event.timestamp <= at && matchesErased(filter, projectId, event))
}

export function matchesErased (filter: ErasedEvents, projectId: number, of: ErasableEvent): boolean {
  const { salt, event, persons, property, value, groupType, groupKey, from = -Infinity, to = Infinity } = filter
  // A time that cannot be read is in no period.
  if ((from !== -Infinity || to !== Infinity) && !(of.timestamp >= from && of.timestamp < to)) return false
  if (event !== undefined && of.event !== event) return false
  if (persons !== undefined && !persons.includes(personUuid(projectId, of.distinctId))) return false
  if (property !== undefined) {
    const own = Object.hasOwn(of.properties, property) ? of.properties[property] : undefined
    if (own === undefined) return false
    if (value !== undefined && hashErased(salt, projectId, textOf(own)) !== value) return false
  }
  if (groupType === undefined) return true
  return of.groups.some((type, i) => i % 2 === 0 && type === groupType && hashErased(salt, projectId, of.groups[i + 1] ?? '') === groupKey)
}

/** As ClickHouse writes what is stored: whole numbers over 64 bits without quotes, an exponent without its plus. */
function textOf (value: unknown): string {
  if (typeof value === 'string') return value
  const json = stringifyJson(value)
  return typeof value === 'number' || isExactNumber(value) ? json.replaceAll('"', '').replace('e+', 'e') : json
}

/** Items per statement: they are sent in the URL, which servers limit to a megabyte, and a parameter to 128 KiB. */
const CHUNK_ITEMS = 1000

/** Parts of a list, such as of uuids, each of which fits into a statement. */
export function inChunks<T> (items: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(items.length / CHUNK_ITEMS) }, (_, chunk) =>
    items.slice(chunk * CHUNK_ITEMS, (chunk + 1) * CHUNK_ITEMS))
}

export interface Condition { where: string, params: Record<string, unknown> }

/** Conditions on the table of events, one for each chunk of persons: each event fulfils one at most. */
export function erasedConditions (filter: ErasedEvents, projectId: number): Condition[] {
  const hashOf = (text: string): string => `lower(hex(SHA256(concat({salt: String}, ${text}))))`
  const conditions: Record<keyof EventFilter, string> = {
    event: 'event = {event: String}',
    persons: 'person_id IN {persons: Array(UUID)}',
    property: 'JSONHas(properties, {property: String})',
    value: `${hashOf(`if(JSONType(properties, {property: String}) = 'String',
      JSONExtractString(properties, {property: String}), JSONExtractRaw(properties, {property: String}))`)} = {value: String}`,
    groupType: 'mapContains(groups, {groupType: String})',
    groupKey: `${hashOf('groups[{groupType: String}]')} = {groupKey: String}`,
    from: 'timestamp >= fromUnixTimestamp64Milli({from: Int64})',
    to: 'timestamp < fromUnixTimestamp64Milli({to: Int64})'
  }
  const own = Object.entries(conditions).flatMap(([name, each]) => name in filter ? [each] : [])
  const where = ['project_id = {project: UInt32}', ...own].join(' AND ')
  const params = { ...filter, project: projectId, salt: `${filter.salt}:${projectId}:` }
  const chunks: Pick<EventFilter, 'persons'>[] = filter.persons === undefined ? [{}] : inChunks(filter.persons).map((persons) => ({ persons }))
  return chunks.map((chunk) => ({ where, params: { ...params, ...chunk } }))
}

export function toErasedEvents (filter: EventFilter, projectId: number): ErasedEvents {
  const { value, groupKey } = filter
  const salt = randomBytes(16).toString('hex')
  return {
    ...filter,
    salt,
    ...value !== undefined && { value: hashErased(salt, projectId, value) },
    ...groupKey !== undefined && { groupKey: hashErased(salt, projectId, groupKey) }
  }
}

/**
 * Of a distinct id or a value. Postgres and ClickHouse compute the same, to find what a record means in restored data.
 */
export function hashErased (salt: string, projectId: number, text: string): string {
  return hash('sha256', `${salt}:${projectId}:${text}`)
}

/** The records in a file beside backups, each once. A line that a crash cut is left out: it is written again. */
export function parseErasures (text: string): ErasureRow[] {
  return [...new Set(text.split('\n'))].flatMap((line) => {
    try {
      const { requested_at: at, ...row }: ErasureRow = JSON.parse(line)
      return [{ ...row, requested_at: new Date(at) }]
    } catch {
      return []
    }
  })
}

/** The lines of those records that a file with this text does not have. */
export function formatErasures (rows: readonly ErasureRow[], text: string): string {
  const format = ({ filter, removed_properties: removed, ...row }: ErasureRow): string =>
    JSON.stringify({ ...row, ...filter != null && { filter }, ...removed != null && { removed_properties: removed } })
  const known = new Set(parseErasures(text).map(format))
  const lines = rows.map(format).filter((line) => !known.has(line))
  return lines.length === 0 ? '' : `\n${lines.join('\n')}\n`
}
