/** Any table of events: CSV, JSON Lines or Parquet, with a mapping of its columns. */
import {
  type ImportTarget, type MapRow, readObject, readText, readTime, RejectedRowError, requireObject, withUuid
} from './imported-event.ts'

/** Which column is which field. `properties` names a column with an object; all other columns are properties. */
export interface Mapping {
  event: string
  timestamp: string
  distinct_id: string
  uuid?: string
  properties?: string
}

const FIELDS = ['event', 'timestamp', 'distinct_id', 'uuid', 'properties'] as const satisfies readonly (keyof Mapping)[]

/** Usual names of the columns, the likeliest first. */
const USUAL: Readonly<Record<keyof Mapping, readonly string[]>> = {
  event: ['event', 'event_name', 'event_type', 'name', 'action'],
  timestamp: ['timestamp', 'time', 'event_time', 'occurred_at', 'created_at', 'at', 'ts', 'date'],
  distinct_id: ['distinct_id', 'user_id', 'userid', 'anonymous_id', 'visitor_id', 'device_id', 'user', 'email'],
  uuid: ['uuid', 'event_id', 'message_id', 'insert_id', '$insert_id', 'id'],
  properties: ['properties', 'event_properties', 'props', 'data', 'payload']
}

/**
 * Completes a mapping by the names of the columns.
 *
 * @param given  What was said: `['event=name', 'timestamp=at']`.
 * @throws {RejectedRowError} for a field that there is not, a column that there is not, or a field that is missing.
 */
export function completeMapping (given: readonly string[], columns: readonly string[]): Mapping {
  const mapping: Partial<Record<keyof Mapping, string>> = {}
  for (const each of given) {
    const at = each.indexOf('=')
    const field = FIELDS.find((name) => name === each.slice(0, at))
    const column = each.slice(at + 1)
    if (field === undefined) throw new RejectedRowError(`--map ${each}: expected one of ${FIELDS.join(', ')}, such as event=name`)
    if (!columns.includes(column)) throw new RejectedRowError(`--map ${each}: no column ${column}; columns: ${columns.join(', ')}`)
    if (mapping[field] !== undefined) throw new RejectedRowError(`--map ${each}: ${field} is ${mapping[field]} already`)
    mapping[field] = column
  }
  for (const field of FIELDS) {
    const taken = Object.values(mapping)
    const free = columns.filter((column) => !taken.includes(column))
    const found = USUAL[field].map((name) => free.find((column) => column.toLowerCase() === name))
      .find((column) => column !== undefined)
    if (mapping[field] === undefined && found !== undefined) mapping[field] = found
  }
  const { event, timestamp, distinct_id: distinctId, ...optional } = mapping
  if (event === undefined || timestamp === undefined || distinctId === undefined) {
    const missing = (['event', 'timestamp', 'distinct_id'] as const).filter((field) => mapping[field] === undefined)
    throw new RejectedRowError(`no column found for ${missing.join(' and ')}; name ${missing.length === 1 ? 'it' : 'them'} with ${missing.map((field) => `--map ${field}=<column>`).join(' ')}. Columns: ${columns.join(', ')}`)
  }
  return { event, timestamp, distinct_id: distinctId, ...optional }
}

export function createMapper (mapping: Mapping, { project, now }: ImportTarget): MapRow {
  const mapped = new Set<string>(Object.values(mapping))
  return (row, before) => {
    const fields = requireObject(row)
    const columns = Object.entries(fields)
      .filter(([column, value]) => !mapped.has(column) && value !== null && value !== '')
    const properties = {
      ...mapping.properties !== undefined && readObject(fields[mapping.properties], mapping.properties),
      ...Object.fromEntries(columns)
    }
    return [withUuid({
      event: readText(fields[mapping.event], mapping.event),
      distinct_id: readText(fields[mapping.distinct_id], mapping.distinct_id),
      timestamp: readTime(fields[mapping.timestamp], mapping.timestamp, now),
      properties
    }, mapping.uuid === undefined ? undefined : fields[mapping.uuid], project, before)]
  }
}
