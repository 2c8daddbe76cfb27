import { invalidField } from '../../engines/errors.ts'
import { searchQueryProperties } from '../http/list-queries.ts'
import { readNameList } from '../http/request-values.ts'
import { pageQuery } from '../http/routes.ts'
import { noteFiltersSchema } from './definition-notes.ts'
import type { Value } from '../http/json-schema.ts'

/** Query of the list, as it arrives (docs/reference/contract/service.md 4.2). */
export type PropertyDefinitionQuery = Value<typeof propertyDefinitionQuerySchema>

const nameList = { type: 'string', maxLength: 100_000 } as const

export const propertyDefinitionQuerySchema = pageQuery({
  ...searchQueryProperties,
  type: {
    type: 'string', enum: ['event', 'person', 'group'], default: 'event',
    description: 'Owner of the properties. Internal SDK properties of events are omitted.'
  },
  group_type_index: {
    type: 'integer', minimum: 0, maximum: 2_147_483_647, description: 'Index of the group type; required for type group, rejected for other types.'
  },
  properties: { ...nameList, description: 'Only these names; separated by commas, or a JSON array.' },
  excluded_properties: { ...nameList, description: 'Omit these names; separated by commas, or a JSON array.' },
  event_names: {
    ...nameList,
    description: 'Events for is_seen_on_filtered_events; separated by commas, or a JSON array. For type event only.'
  },
  filter_by_event_names: {
    type: 'boolean', default: false, description: 'true: only properties seen on one of event_names.'
  },
  is_feature_flag: { type: 'boolean', description: 'true: only names that begin with $feature/; false: only other names.' },
  is_numerical: { type: 'boolean', description: 'true: only numeric properties, without distinct_id and timestamp; false has no effect.' },
  ...noteFiltersSchema
})

export type PropertyFilter = ReturnType<typeof readPropertyFilter>

/** Never listed for events: they carry what SDKs say about persons, groups and sessions, not about the event. */
export const HIDDEN_EVENT_PROPERTIES = [
  'distinct_id', '$set', '$set_once', '$initial_referrer', '$initial_referring_domain', '$groups', '$group_type',
  '$group_key', '$group_set', '$group_0', '$group_1', '$group_2', '$group_3', '$group_4',
  '$session_entry_referrer', '$session_entry_referring_domain', '$session_entry_url', '$session_entry_host',
  '$session_entry_pathname'
]

/** Never listed as numeric: their values may be numbers, but are not measures. */
const NEVER_NUMERICAL = ['distinct_id', 'timestamp']

/** @throws {HttpError} 400 for a malformed list, and for a group type index that is missing or not allowed. */
export function readPropertyFilter (query: PropertyDefinitionQuery) {
  if (query.type === 'group' && query.group_type_index === undefined) {
    throw invalidField('group_type_index', '`group_type_index` must be set for `group` type', 'required')
  }
  if (query.type !== 'group' && query.group_type_index !== undefined) {
    throw invalidField('group_type_index', '`group_type_index` can only be set for `group` type')
  }
  const eventNames = query.type === 'event' ? readNameList('event_names', query.event_names) : undefined
  const onlyNumerical = query.is_numerical === true
  return {
    type: query.type,
    groupTypeIndex: query.group_type_index,
    search: query.search,
    only: readNameList('properties', query.properties),
    without: [
      ...readNameList('excluded_properties', query.excluded_properties) ?? [],
      ...(query.type === 'event' ? HIDDEN_EVENT_PROPERTIES : []),
      ...(onlyNumerical ? NEVER_NUMERICAL : [])
    ],
    // Undefined: `is_seen_on_filtered_events` is null.
    eventNames,
    mustBeSeen: eventNames !== undefined && query.filter_by_event_names,
    isFeatureFlag: query.is_feature_flag,
    onlyNumerical,
    notes: query
  }
}
