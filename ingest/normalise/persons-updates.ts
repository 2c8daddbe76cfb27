import { isFields } from '../../engines/fields.ts'
import { toDistinctId, toGroupKey, toGroupType } from '../../schema/wire/identity.ts'
import { COPIED_PROPERTIES, initialName, type MergeUpdate, type PersonsUpdate, type PersonUpdate } from '../../schema/wire/persons-update.ts'
import type { EventRow, SentEvent } from '../event.ts'
import { formatUuid } from '../../engines/uuid.ts'

type Properties = Record<string, unknown>

/** Whether the index of a group type was asked for already, so that it need not be again. */
export type IsAnnounced = (projectId: number, groupType: string) => boolean

const NONE: readonly PersonsUpdate[] = []

/** These describe a broken page or a mouse, not a person. */
const NEVER_PERSON_EVENTS = new Set(['$exception', '$$heatmap'])

/**
 * Tells what an event changes about persons and groups (docs/reference/contract/sdks.md 5.1 to 5.3).
 *
 * - `$identify` with `$anon_distinct_id`, `$create_alias` and `$merge_dangerously` with `alias`: a merge. Whether the
 *   ids may be merged is decided where merges are applied, which counts the refused ones.
 * - `$set`, `$set_once`, `$unset` on any event, and every `$identify`: a person. Such an event also brings what it says
 *   about the person's browser, page and campaign, as `$set` and as `$set_once` of `$initial_...`. Other events
 *   change no person: that would be a write for each page view.
 * - `$groupidentify`: a group. `$groups` of any event: its group types get their indexes.
 * - `$process_person_profile: false`: no person and no merge.
 *
 * @param isHistorical  The event is of an import: what it sets goes by its time.
 */
export function derivePersonsUpdates (
  row: EventRow, properties: Properties, isAnnounced: IsAnnounced, isHistorical = false
): readonly PersonsUpdate[] {
  const { event } = row
  const isPersonEvent = event === '$identify' || event === '$create_alias' || event === '$merge_dangerously' ||
    properties.$set !== undefined || properties.$set_once !== undefined || properties.$unset !== undefined
  const isGroupEvent = event === '$groupidentify'
  // Nearly every event ends here.
  if (!isPersonEvent && !isGroupEvent && row.groups.length === 0) return NONE

  const updates: PersonsUpdate[] = []
  for (let i = 0; i < row.groups.length; i += 2) {
    const groupType = row.groups[i] as string
    if (!isAnnounced(row.projectId, groupType)) updates.push({ kind: 'groupType', ...originOf(row), groupType })
  }
  if (isGroupEvent) pushGroupUpdate(updates, row, properties)
  const wantsNoPerson = properties.$process_person_profile === false || NEVER_PERSON_EVENTS.has(event)
  if (isPersonEvent && !wantsNoPerson && !isGroupEvent) {
    const update = toPersonUpdate(row, properties)
    updates.push(isHistorical ? { ...update, byTime: true } : update)
  }
  return updates
}

function toPersonUpdate (row: EventRow, properties: Properties): PersonUpdate | MergeUpdate {
  const origin = originOf(row)
  const { distinctId } = row
  const changes = changesOf(properties)
  switch (row.event) {
    case '$identify': {
      const otherDistinctId = toDistinctId(properties.$anon_distinct_id)
      return otherDistinctId === ''
        ? { kind: 'person', ...origin, distinctId, ...changes, identify: true }
        : { kind: 'merge', ...origin, distinctId, otherDistinctId, how: 'identify', ...changes }
    }
    case '$create_alias':
      return { kind: 'merge', ...origin, distinctId, otherDistinctId: toDistinctId(properties.alias), how: 'alias', ...changes }
    case '$merge_dangerously': {
      const identify = properties.$mark_identified === false && { identify: false } as const
      return { kind: 'merge', ...origin, distinctId, otherDistinctId: toDistinctId(properties.alias), how: 'force', ...identify, ...changes }
    }
    default:
      return { kind: 'person', ...origin, distinctId, ...changes }
  }
}

function pushGroupUpdate (updates: PersonsUpdate[], row: EventRow, properties: Properties): void {
  const groupType = toGroupType(properties.$group_type)
  const groupKey = toGroupKey(properties.$group_key)
  const set = toObject(properties.$group_set)
  if (groupType === '' || groupKey === '' || !isFields(set)) return
  updates.push({ kind: 'group', ...originOf(row), groupType, groupKey, set })
}

/** What the event sets, its own words before what was read off it. */
function changesOf (properties: Properties): { set?: Properties, setOnce?: Properties, unset?: string[] } {
  const automatic = automaticPersonProperties(properties)
  const set = isFields(properties.$set) ? { ...automatic.set, ...properties.$set } : automatic.set
  const setOnce = isFields(properties.$set_once) ? { ...automatic.setOnce, ...properties.$set_once } : automatic.setOnce
  const unset = unsetNames(properties.$unset)
  return {
    ...(Object.keys(set).length > 0 && { set }),
    ...(Object.keys(setOnce).length > 0 && { setOnce }),
    ...(unset.length > 0 && { unset })
  }
}

function originOf (row: EventRow): { projectId: number, uuid: string, timestamp: number } {
  return { projectId: row.projectId, uuid: formatUuid(row.uuid), timestamp: row.timestamp }
}

const COPIED = COPIED_PROPERTIES.map((name) => ({ name, initial: initialName(name), isOfHost: name.startsWith('$os') }))

/**
 * What an event says about its person by the way: the latest as `set`, the first as `setOnce` of `$initial_...`. The
 * operating system of an event with `$is_server` is that of the server, and says nothing about the person.
 */
function automaticPersonProperties (
  properties: Record<string, unknown>
): { set: Record<string, unknown>, setOnce: Record<string, unknown> } {
  const set: Record<string, unknown> = {}
  const setOnce: Record<string, unknown> = {}
  const isServer = properties.$is_server === true
  for (const { name, initial, isOfHost } of COPIED) {
    const value = properties[name]
    if (value === undefined || value === null || (isServer && isOfHost)) continue
    set[name] = value
    setOnce[initial] = value
  }
  return { set, setOnce }
}

/**
 * Moves `$set`, `$set_once` and `$unset` from beside the properties into them, where the top level wins over the same
 * key inside. Returns the given object untouched when there is nothing to move.
 */
export function mergePersonProperties (sent: SentEvent, properties: Properties): Properties {
  if (sent.$set === undefined && sent.$set_once === undefined && sent.$unset === undefined) return properties
  const merged: Properties = { ...properties }
  if (isFields(sent.$set)) merged.$set = merge(properties.$set, sent.$set)
  if (isFields(sent.$set_once)) merged.$set_once = merge(properties.$set_once, sent.$set_once)
  const unset = [...unsetNames(properties.$unset), ...unsetNames(sent.$unset)]
  if (sent.$unset !== undefined && unset.length > 0) merged.$unset = [...new Set(unset)]
  return merged
}

/** Names to unset: a list of names, or the keys of an object. */
function unsetNames (value: unknown): string[] {
  if (Array.isArray(value)) return value.filter((name) => typeof name === 'string')
  return isFields(value) ? Object.keys(value) : []
}

/** An absent object is an empty one, and so is an empty array: PHP writes an object without fields as `[]`. */
export function toObject<T> (value: T | readonly [] | null | undefined): T | Properties {
  if (value === undefined || value === null) return {}
  return Array.isArray(value) && value.length === 0 ? {} : value as T
}

/** Spread copies an own key named `__proto__` as data, which assignment would not. */
function merge (inside: unknown, top: Properties): Properties {
  return isFields(inside) ? { ...inside, ...top } : top
}
