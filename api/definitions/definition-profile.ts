/** What the events of the last 30 days say about one definition: types by day, sample values. */
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { array, object, type Row, time } from '../http/json-schema.ts'

/** Days of a profile, the running one (UTC) last. */
export const PROFILE_DAYS = 30
const DAY_MS = 86_400_000

const MAX_SECONDS = 10
const LIMITS = `SETTINGS final = 0, max_execution_time = ${MAX_SECONDS}`

/** Events and properties of a profile: the most frequent ones. */
const MAX_ROWS = 50
/** Events that are read for samples of a type, samples of a type, and characters of one. */
const SAMPLED_EVENTS = 1000
const MAX_SAMPLES = 5
const MAX_SAMPLE_CHARACTERS = 300

const day = { type: 'string', format: 'date', description: 'First of 30 UTC days, by event timestamp.' } as const
const typeName = { type: 'string', enum: ['String', 'Numeric', 'Boolean', 'DateTime', 'none'], description: 'none: null, arrays and objects.' } as const

export const eventProfileSchema = object({
  properties: array(object({ name: { type: 'string' }, types: { type: 'array', items: typeName, description: 'Most frequent first.' }, events: { type: 'integer' } }), { description: 'The 50 most frequent properties of the event, over all time.' })
})

export const propertyProfileSchema = object({
  from: day,
  types: array(object({
    type: typeName,
    events: { type: 'integer' },
    share: { type: 'number', description: 'Share of the events that carry the property.' },
    first_seen_at: time,
    last_seen_at: time,
    volumes: { type: 'array', items: { type: 'integer' }, description: 'Events of each day, today last.' },
    samples: {
      type: ['array', 'null'],
      description: 'The most frequent values among 1,000 events of the last day with this type, as JSON text cut to 300 characters; null without the scope event:read.',
      items: object({ value: { type: 'string' }, events: { type: 'integer' } })
    }
  }), { description: 'Types of its values in these days, most frequent first.' }),
  events: array(object({ name: { type: 'string' }, events: { type: 'integer' } }), { description: 'The 50 events that carry it most often, over all time.' })
})

type EventProfile = Row<typeof eventProfileSchema>

type PropertyProfile = Omit<Row<typeof propertyProfileSchema>, 'from'>

type SeenType = PropertyProfile['types'][number]

/** A property, as `property_definitions` names it. */
export interface ProfiledProperty {
  projectId: number
  name: string
  type: 'event' | 'person' | 'group'
  groupType: string
}

export interface Days { firstDay: number, from: string }

/** The days of a profile; `firstDay` in days since 1970. */
export function profileDays (nowMs: number): Days {
  const firstDay = Math.floor(nowMs / DAY_MS) - PROFILE_DAYS + 1
  return { firstDay, from: new Date(firstDay * DAY_MS).toISOString().slice(0, 10) }
}

/** Rows of the events of a project in these days; those of the future are left out. */
const IN_DAYS = `project_id = {project: UInt32} AND timestamp >= toDateTime64({first: UInt32} * 86400, 3, 'UTC')
  AND timestamp < toDateTime64(({first: UInt32} + ${PROFILE_DAYS}) * 86400, 3, 'UTC')`

interface TypeOfDay {
  day: number
  type: SeenType['type']
  events: number
  first_ms: number
  last_ms: number
}

/**
 * The types of a property, and the events that carry it.
 *
 * Rows of one shape share their text in `property_types`, so they are counted by it first and split afterwards.
 *
 * @param withSamples  Whether values may be seen.
 */
export async function profileProperty (
  clickhouse: ClickHouse, property: ProfiledProperty,
  { firstDay, withSamples }: { firstDay: number, withSamples: boolean }
): Promise<PropertyProfile> {
  const { projectId, type: kind, name, groupType } = property
  const params = {
    project: projectId, first: firstDay, kind, entry: entryOf(property), property: name, group_type: groupType
  }
  const carriers = `event IN (SELECT event FROM event_property_counts
    WHERE project_id = {project: UInt32} AND kind = {kind: String} AND group_type = {group_type: String} AND property = {property: String})`
  const [rows, events] = await Promise.all([
    queryRows<TypeOfDay>(clickhouse, `
      SELECT toUInt32(day) AS day, transform(code, ['S', 'N', 'B', 'D'], ['String', 'Numeric', 'Boolean', 'DateTime'], 'none') AS type,
        toFloat64(sum(n)) AS events,
        toUnixTimestamp64Milli(min(earliest)) :: Float64 AS first_ms, toUnixTimestamp64Milli(max(latest)) :: Float64 AS last_ms
      FROM (
        SELECT toDate(timestamp) AS day, property_types, count() AS n, min(timestamp) AS earliest, max(timestamp) AS latest
        FROM events WHERE ${IN_DAYS} AND ${carriers} GROUP BY day, property_types
      )
      ARRAY JOIN arrayMap(entry -> substring(entry, 2, 1), arrayFilter(
        entry -> concat(substring(entry, 1, 1), substring(entry, 3)) = {entry: String},
        splitByChar('\\0', toString(property_types)))) AS code
      GROUP BY day, code ${LIMITS}`, params),
    queryRows<{ name: string, events: number }>(clickhouse, `
      SELECT toString(event) AS name, toFloat64(sum(count)) AS events FROM event_property_counts
      WHERE project_id = {project: UInt32} AND kind = {kind: String} AND group_type = {group_type: String} AND property = {property: String}
      GROUP BY event ORDER BY events DESC, name LIMIT ${MAX_ROWS} ${LIMITS}`, params)
  ])
  const types = collectTypes(rows, firstDay)
  if (withSamples) {
    await Promise.all(types.map(async (type) => {
      const of = { type: type.type, lastSeenAt: type.last_seen_at, carriers, params }
      type.samples = await readSamples(clickhouse, property, of)
    }))
  }
  return { types, events }
}

/** Kind and name as entries of `property_types` have them; see `schema/wire/event-row.ts`. */
function entryOf ({ type, name, groupType }: Pick<ProfiledProperty, 'type' | 'name' | 'groupType'>): string {
  return type === 'group' ? `g${groupType}\x01${name}` : `${type[0]}${name}`
}

function collectTypes (rows: readonly TypeOfDay[], firstDay: number): SeenType[] {
  const types = new Map<string, SeenType>()
  const all = rows.reduce((sum, { events }) => sum + events, 0)
  for (const { type, day, events, first_ms: firstMs, last_ms: lastMs } of rows) {
    const seen = types.get(type) ?? {
      type, events: 0, share: 0, first_seen_at: new Date(firstMs), last_seen_at: new Date(lastMs),
      volumes: Array.from({ length: PROFILE_DAYS }, () => 0), samples: null
    }
    seen.events += events
    seen.share = seen.events / all
    seen.volumes[day - firstDay] = (seen.volumes[day - firstDay] ?? 0) + events
    if (firstMs < seen.first_seen_at.getTime()) seen.first_seen_at = new Date(firstMs)
    if (lastMs > seen.last_seen_at.getTime()) seen.last_seen_at = new Date(lastMs)
    types.set(type, seen)
  }
  return [...types.values()].sort((a, b) => b.events - a.events)
}

const TYPE_CODES = { String: 'S', Numeric: 'N', Boolean: 'B', DateTime: 'D', none: '?' } as const

/** Where the values of a property stand in `properties`. */
const VALUES = {
  event: 'JSONExtractRaw(properties, {property: String})',
  person: `if(JSONHas(properties, '$set', {property: String}), JSONExtractRaw(properties, '$set', {property: String}),
    JSONExtractRaw(properties, '$set_once', {property: String}))`,
  group: "JSONExtractRaw(properties, '$group_set', {property: String})"
} as const

/** Values of the last day on which it had a type: reading stops after the first events of that day that carry it. */
async function readSamples (
  clickhouse: ClickHouse, property: ProfiledProperty,
  options: { type: SeenType['type'], lastSeenAt: Date, carriers: string, params: Record<string, unknown> }
): Promise<{ value: string, events: number }[]> {
  const { type, lastSeenAt, carriers, params } = options
  const entry = entryOf(property)
  return await queryRows<{ value: string, events: number }>(clickhouse, `
    SELECT value, toFloat64(count()) AS events FROM (
      SELECT substringUTF8(${VALUES[property.type]}, 1, ${MAX_SAMPLE_CHARACTERS}) AS value
      FROM events
      WHERE project_id = {project: UInt32} AND toDate(timestamp) = toDate({day: UInt32}) AND ${carriers}
        AND has(splitByChar('\\0', toString(property_types)), {typed: String})
      LIMIT ${SAMPLED_EVENTS}
    ) WHERE value != '' GROUP BY value ORDER BY events DESC, value LIMIT ${MAX_SAMPLES} ${LIMITS}`,
  { ...params, day: Math.floor(lastSeenAt.getTime() / DAY_MS), typed: `${entry[0]}${TYPE_CODES[type]}${entry.slice(1)}` })
}

export async function profileEvent (
  clickhouse: ClickHouse, { projectId: project, name: event }: { projectId: number, name: string }
): Promise<EventProfile> {
  const properties = await queryRows<EventProfile['properties'][number]>(clickhouse, `
    SELECT name, groupArray(type) AS types, sum(n) AS events FROM (
      SELECT property AS name, toString(type) AS type, toFloat64(sum(count)) AS n FROM event_property_counts
      WHERE project_id = {project: UInt32} AND event = {event: String} AND kind = 'event' GROUP BY name, type ORDER BY n DESC)
    GROUP BY name ORDER BY events DESC, name LIMIT ${MAX_ROWS} ${LIMITS}`, { project, event })
  return { properties }
}
