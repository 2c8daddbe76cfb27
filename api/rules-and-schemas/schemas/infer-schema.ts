import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { isStorableText } from '../../../engines/body/storable-text.ts'
import { SCHEMA_LIMITS } from '../../../engines/json-schema/schema-place.ts'
import type { InferredSchema } from './event-schema.ts'

export interface InferQuery {
  projectId: number
  event: string
  /** Days before now, by the timestamp of the events, 1 to 365. */
  days: number
  limit: number
  /** Also describe the properties that SDKs add, whose names begin with `$`. */
  includeSdk: boolean
  /** Epoch milliseconds. */
  now: number
}

/** Properties of a draft at most; the most frequent ones. */
const MAX_PROPERTIES = 200

/** A property has an `enum` if it has at most this many values, */
const MAX_VALUES = 10

/** each of them so often on average, */
const EVENTS_PER_VALUE = 10

/** and none whose JSON has more characters. */
const MAX_VALUE_LENGTH = 100

const DAY_MS = 86_400_000

interface FoundProperty {
  name: string
  events: number
  types: string[]
  /** JSON of up to one more than {@link MAX_VALUES} short ones. */
  values: string[]
  areShort: 0 | 1
}

/**
 * Makes a draft of a schema from stored events: names, types, which properties all events have, and the values of those
 * that have few. ClickHouse reads the events and returns statistics of each property.
 */
export async function inferSchema (clickhouse: ClickHouse, query: InferQuery): Promise<InferredSchema> {
  const { projectId: project, event, now, days, limit, includeSdk } = query
  const parameters = { project, event, from: now - days * DAY_MS, to: now + DAY_MS, limit, includeSdk }
  const ofEvents = `FROM events WHERE project_id = {project: UInt32} AND event = {event: String}
    AND timestamp >= fromUnixTimestamp64Milli({from: Int64}) AND timestamp < fromUnixTimestamp64Milli({to: Int64})`
  const [[counted], found] = await Promise.all([
    queryRows<{ events: number }>(clickhouse, `SELECT toUInt32(count()) AS events ${ofEvents}`, parameters),
    queryRows<FoundProperty>(clickhouse, `
      SELECT name, toUInt32(count()) AS events, arraySort(groupUniqArray(type)) AS types,
        groupUniqArrayIf(${MAX_VALUES + 1})(value, type != 'null' AND lengthUTF8(value) <= ${MAX_VALUE_LENGTH}) AS values,
        max(lengthUTF8(value)) <= ${MAX_VALUE_LENGTH} AS areShort
      FROM (
        SELECT arrayJoin(JSONExtractKeysAndValuesRaw(properties)) AS entry, entry.1 AS name, entry.2 AS value,
          transform(toString(JSONType(value)), ['Bool', 'Int64', 'UInt64', 'Double', 'String', 'Array', 'Object'],
            ['boolean', 'integer', 'integer', 'number', 'string', 'array', 'object'], 'null') AS type
        FROM (SELECT properties ${ofEvents} LIMIT {limit: UInt32}))
      WHERE ({includeSdk: Bool} OR NOT startsWith(name, '$')) AND name NOT IN ('', '__proto__')
        AND lengthUTF8(name) <= ${SCHEMA_LIMITS.nameLength} AND position(name, '\\0') = 0
      GROUP BY name ORDER BY events DESC, name LIMIT ${MAX_PROPERTIES}`, parameters)
  ])
  return describe(Math.min(counted?.events ?? 0, limit), found)
}

/** Describes the most frequent properties, as many as a schema may have. */
function describe (events: number, found: readonly FoundProperty[]): InferredSchema {
  const named = found.toSorted((one, other) => one.name < other.name ? -1 : 1)
  const required = named.filter((property) => property.events === events).map(({ name }) => name)
  const schema = {
    type: 'object',
    ...required.length > 0 && { required },
    properties: Object.fromEntries(named.map((property) => [property.name, describeProperty(property)]))
  }
  const isTooLong = Buffer.byteLength(JSON.stringify(schema)) > SCHEMA_LIMITS.bytes
  if (isTooLong) return describe(events, found.slice(0, found.length / 2))
  const properties = found.map(({ name, events: having, types }) => ({ name, events: having, types }))
  return { schema, events, properties }
}

function describeProperty ({ events, types: found, values, areShort }: FoundProperty): object {
  // A number may be a whole one.
  const types = found.filter((type) => type !== 'integer' || !found.includes('number'))
  const described = { type: types.length === 1 ? types[0] : types }
  const isFew = values.length > 0 && values.length <= MAX_VALUES && events >= values.length * EVENTS_PER_VALUE
  if (!isFew || areShort === 0) return described
  const texts = values.map((value) => JSON.parse(value) as unknown).sort()
  if (!texts.every((text) => typeof text === 'string' && isStorableText(text))) return described
  return { ...described, enum: [...texts, ...types.includes('null') ? [null] : []] }
}
