/** What an erasure by filter concerns. */
import { invalidField } from '../../engines/errors.ts'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { EventFilter } from '../../schema/wire/erased-ids.ts'
import { personUuid, toDistinctId, toGroupKey } from '../../schema/wire/identity.ts'
import { conditionsOf, PROPERTY_CONDITIONS, readTime } from '../events/day-spans.ts'
import { optional, string, time, type Value } from '../http/json-schema.ts'
import { defined } from '../http/request-values.ts'

/** Distinct ids of one erasure at most. */
const MAX_IDS = 10_000

const period = {
  event: { ...string, minLength: 1, maxLength: 400 },
  from: { ...time, description: 'Event time.' },
  to: { ...time, description: 'Event time, exclusive.' }
} as const
const property = {
  property: { ...string, minLength: 1, maxLength: 400 },
  value: { ...string, maxLength: 4000, description: 'Strings as they are, other values as JSON: `12.5`, `true`.' }
} as const

export const personFilterSchema = optional({ ...property, ...period }, {
  additionalProperties: false, minProperties: 1, dependencies: { value: ['property'] },
  description: 'Persons that have this property, and an event with this name in this time range.'
})

export const eventFilterSchema = optional({
  ...period,
  distinct_id: { ...string, minLength: 1, maxLength: 400 },
  person: { ...string, format: 'uuid' },
  ...property,
  group_type: { ...string, minLength: 1, maxLength: 400 },
  group_key: { ...string, minLength: 1, maxLength: 400 }
}, {
  additionalProperties: false, minProperties: 1, dependencies: { value: ['property'], group_type: ['group_key'], group_key: ['group_type'] },
  description: 'Erases only events, selected as in the list of events; persons keep the properties that these events set.'
})

/** @throws {HttpError} 400 when more persons match than one erasure may have. */
export async function findMatchingIds (
  clickhouse: ClickHouse, project: number, { from, to, ...filter }: Value<typeof personFilterSchema>
): Promise<string[]> {
  const params = defined({ ...filter, ...readPeriod('persons', from, to) })
  const ofEvents = conditionsOf({
    event: 'event = {event: String}', from: 'seen.timestamp >= fromUnixTimestamp64Milli({from: Int64})',
    to: 'seen.timestamp < fromUnixTimestamp64Milli({to: Int64})'
  }, params)
  const having = conditionsOf(PROPERTY_CONDITIONS, params)
  const persons = having === '' ? '' : `AND person_id IN (SELECT person_id FROM persons FINAL WHERE project_id = {project: UInt32} ${having})`
  // Somebody without any event has a person.
  const eventless = ofEvents !== ''
    ? ''
    : `UNION DISTINCT
    SELECT distinct_id AS id FROM person_distinct_ids FINAL WHERE project_id = {project: UInt32} ${persons}`
  const rows = await queryRows<{ id: string }>(clickhouse, `
    SELECT id FROM (SELECT DISTINCT distinct_id AS id FROM events_with_person AS seen WHERE project_id = {project: UInt32} ${ofEvents} ${persons} ${eventless})
    LIMIT ${MAX_IDS + 1} SETTINGS final = 1, max_execution_time = 60`, { project, ...params })
  if (rows.length > MAX_IDS) throw invalidField('persons', `persons matches more than ${MAX_IDS} distinct ids; narrow the filter and erase in parts.`)
  return rows.map(({ id }) => id)
}

/** The filter by what the table of events has. */
export async function toEventFilter (
  clickhouse: ClickHouse, projectId: number,
  asked: Value<typeof eventFilterSchema>
): Promise<EventFilter> {
  const { distinct_id: id, person, group_type: groupType, group_key: key, from, to, ...filter } = asked
  const ofId = id === undefined ? undefined : [personUuid(projectId, toDistinctId(id))]
  const ofPerson = person === undefined ? undefined : await readPersonIds(clickhouse, projectId, person)
  const persons = ofPerson === undefined ? ofId : ofId?.filter((each) => ofPerson.includes(each)) ?? ofPerson
  return defined({
    ...filter, persons, groupType, groupKey: key === undefined ? undefined : toGroupKey(key),
    ...readPeriod('events', from, to)
  })
}

/** @throws {HttpError} 400 for one that has no time. */
function readPeriod (
  filter: string, begin: string | undefined, end: string | undefined
): Record<'from' | 'to', number | undefined> {
  const [from, to] = [readTime(begin), readTime(end)]
  if (from !== undefined && to !== undefined && from >= to) throw invalidField(`${filter}__to`, 'It must be after from.')
  return { from, to }
}

/** All ids that events of a person have. */
async function readPersonIds (clickhouse: ClickHouse, project: number, person: string): Promise<string[]> {
  const rows = await queryRows<{ now: string, old: string }>(clickhouse, `
    SELECT toString(person_id) AS now, toString(old_person_id) AS old FROM person_overrides FINAL WHERE project_id = {project: UInt32}
      AND (person_id = {person: UUID} OR person_id IN (
        SELECT person_id FROM person_overrides FINAL WHERE project_id = {project: UInt32} AND old_person_id = {person: UUID}))`,
  { project, person })
  return [...new Set([person.toLowerCase(), ...rows.flatMap(({ now, old }) => [now, old])])]
}
