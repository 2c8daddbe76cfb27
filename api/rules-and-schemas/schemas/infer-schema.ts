import { type ClickHouse, queryRows } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { visitRows } from '../look-back.ts'
import { isStorableText } from '../../../engines/body/storable-text.ts'
import { SCHEMA_LIMITS } from '../../../engines/json-schema/schema-place.ts'
import type { InferredSchema } from './event-schema.ts'

/** Which stored events a draft is made from. */
export interface InferQuery {
  projectId: number
  event: string
  /** Days before now, by the timestamp of the events, 1 to 365. */
  days: number
  /** About how many events at most. */
  limit: number
  /** Also describe the properties that SDKs add, whose names begin with `$`. Default: false. */
  includeSdk?: boolean
  /** Epoch milliseconds. */
  now: number
}

/** Properties of a draft at most; the most frequent ones. */
const MAX_PROPERTIES = 200

/** Names that are counted at most, whatever clients send. */
const MAX_NAMES = 5000

/** A property has an `enum` when it has at most so many values, */
const MAX_VALUES = 10

/** each of them so often on average, */
const EVENTS_PER_VALUE = 10

/** and none with more characters. */
const MAX_VALUE_LENGTH = 100

const DAY_MS = 86_400_000

/**
 * Makes a draft of a schema from stored events: names, types, which properties all events have, and the values of those
 * that have few.
 *
 * The same stored events give the same draft: when there are more than the limit, uuids decide which are read.
 */
export async function inferSchema (clickhouse: ClickHouse, query: InferQuery): Promise<InferredSchema> {
  const { projectId: project, event, now, days, limit } = query
  const parameters = { project, event, from: now - days * DAY_MS, to: now + DAY_MS }
  const [counted] = await queryRows<{ events: number }>(clickhouse, `SELECT toUInt32(count()) AS events ${FROM}`, parameters)
  const stored = counted?.events ?? 0
  const { share, cut } = sampleOf(stored, limit)
  const draft = new Draft(query.includeSdk === true)
  const result = await clickhouse.query({
    query: `SELECT properties ${FROM} AND ${SHARE} < {share: UInt32} ${cut ? `ORDER BY ${SHARE}, uuid LIMIT {limit: UInt32}` : ''}`,
    query_params: { ...parameters, share, limit },
    format: 'JSONCompactEachRow',
    clickhouse_settings: { wait_end_of_query: 0 }
  })
  await visitRows(result.stream<[string]>(), (row) => {
    draft.add(JSON.parse(row.json<[string]>()[0]) as Record<string, unknown>)
  })
  return { ...draft.describe(), stored }
}

/** Of so many parts of all uuids, some are read. */
const SHARES = 1_000_000

/** The part of an event. */
const SHARE = `cityHash64(uuid) % ${SHARES}`

/** Events that are sorted at most: an event may have a megabyte. */
const MAX_SORTED = 1000

/**
 * How many parts to read. A share of few events may well have none of them, so it is a larger one that is cut: eight
 * standard deviations more than were asked for, and some. Of many events, a share is as good as their number.
 */
function sampleOf (stored: number, limit: number): { share: number, cut: boolean } {
  if (stored <= limit) return { share: SHARES, cut: false }
  const cut = limit <= MAX_SORTED
  const wanted = cut ? limit + 8 * Math.sqrt(limit) + 64 : limit
  return { share: Math.min(SHARES, Math.ceil(wanted / stored * SHARES)), cut }
}

const FROM = `FROM events
  WHERE project_id = {project: UInt32} AND event = {event: String}
    AND timestamp >= fromUnixTimestamp64Milli({from: Int64}) AND timestamp < fromUnixTimestamp64Milli({to: Int64})`

/** What is known of a property. */
interface Known {
  events: number
  types: Set<string>
  /** Null: too many, too long, not only texts, or with a NUL. */
  values: Set<string> | null
}

/** Collects what events have, in bounded memory. */
export class Draft {
  #events = 0
  readonly #includeSdk: boolean
  readonly #properties = new Map<string, Known>()

  constructor (includeSdk: boolean) {
    this.#includeSdk = includeSdk
  }

  /** @param properties  As `JSON.parse` reads them from the table. */
  add (properties: Readonly<Record<string, unknown>>): void {
    this.#events++
    for (const [name, value] of Object.entries(properties)) {
      if ((!this.#includeSdk && name.startsWith('$')) || !mayBeNamed(name)) continue
      let known = this.#properties.get(name)
      if (known === undefined) {
        if (this.#properties.size === MAX_NAMES) continue
        this.#properties.set(name, known = { events: 0, types: new Set(), values: new Set() })
      }
      known.events++
      known.types.add(typeOf(value))
      if (known.values !== null && value !== null) known.values = addValue(known.values, value)
    }
  }

  /** The most frequent properties, as many as a schema may have. */
  describe (): Omit<InferredSchema, 'stored'> {
    let found = [...this.#properties].sort(([one, { events }], [other, { events: others }]) =>
      others - events || (one < other ? -1 : 1)).slice(0, MAX_PROPERTIES)
    let schema = this.#describe(found)
    while (Buffer.byteLength(JSON.stringify(schema)) > SCHEMA_LIMITS.bytes) {
      found = found.slice(0, Math.floor(found.length / 2))
      schema = this.#describe(found)
    }
    const properties = found.map(([name, { events, types }]) => ({ name, events, types: typesOf(types) }))
    return { schema, events: this.#events, properties }
  }

  #describe (found: readonly [string, Known][]): Record<string, unknown> {
    const named = found.toSorted(([one], [other]) => one < other ? -1 : 1)
    const required = named.filter(([, { events }]) => events === this.#events).map(([name]) => name)
    return {
      type: 'object',
      ...required.length > 0 && { required },
      properties: Object.fromEntries(named.map(([name, known]) => [name, describeProperty(known)]))
    }
  }
}

/** Whether a schema can say something of a property. Stored names may hold NUL, which no schema that is put may. */
function mayBeNamed (name: string): boolean {
  return name !== '' && name !== '__proto__' && name.length <= SCHEMA_LIMITS.nameLength && isStorableText(name)
}

function addValue (values: Set<string>, value: unknown): Set<string> | null {
  if (typeof value !== 'string' || value.length > MAX_VALUE_LENGTH || !isStorableText(value)) return null
  return values.add(value).size > MAX_VALUES ? null : values
}

function typeOf (value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return Number.isInteger(value) ? 'integer' : typeof value
}

/** In one order; a number may be a whole one. */
function typesOf (types: ReadonlySet<string>): string[] {
  return [...types].filter((type) => type !== 'integer' || !types.has('number')).sort()
}

function describeProperty ({ events, types, values }: Known): Record<string, unknown> {
  const names = typesOf(types)
  const described = { type: names.length === 1 ? names[0] : names }
  if (values === null || values.size === 0 || events < values.size * EVENTS_PER_VALUE) return described
  return { ...described, enum: [...[...values].sort(), ...types.has('null') ? [null] : []] }
}
