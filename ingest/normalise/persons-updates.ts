import { isFields } from '../../engines/fields.ts'
import { toGroupKey, toGroupType } from '../../schema/wire/identity.ts'
import { derivePersonUpdate, mayChangePerson, unsetNames } from '../../schema/wire/derive-person-update.ts'
import type { PersonsUpdate } from '../../schema/wire/persons-update.ts'
import type { EventRow, SentEvent } from '../event.ts'
import { formatUuid } from '../../engines/uuid.ts'

type Properties = Record<string, unknown>

/** Whether the index of a group type was asked for already, so that it need not be again. */
export type IsAnnounced = (projectId: number, groupType: string) => boolean

const NONE: readonly PersonsUpdate[] = []

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
  const isPersonEvent = mayChangePerson(event, properties)
  const isGroupEvent = event === '$groupidentify'
  // Nearly every event ends here.
  if (!isPersonEvent && !isGroupEvent && row.groups.length === 0) return NONE

  const updates: PersonsUpdate[] = []
  for (let i = 0; i < row.groups.length; i += 2) {
    const groupType = row.groups[i] as string
    if (!isAnnounced(row.projectId, groupType)) updates.push({ kind: 'groupType', ...originOf(row), groupType })
  }
  if (isGroupEvent) pushGroupUpdate(updates, row, properties)
  const origin = { ...originOf(row), event, distinctId: row.distinctId }
  const update = isPersonEvent ? derivePersonUpdate(origin, properties) : null
  if (update !== null) updates.push(isHistorical ? { ...update, byTime: true } : update)
  return updates
}

function pushGroupUpdate (updates: PersonsUpdate[], row: EventRow, properties: Properties): void {
  const groupType = toGroupType(properties.$group_type)
  const groupKey = toGroupKey(properties.$group_key)
  const set = toObject(properties.$group_set)
  if (groupType === '' || groupKey === '' || !isFields(set)) return
  updates.push({ kind: 'group', ...originOf(row), groupType, groupKey, set })
}

function originOf (row: EventRow): { projectId: number, uuid: string, timestamp: number } {
  return { projectId: row.projectId, uuid: formatUuid(row.uuid), timestamp: row.timestamp }
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

/** An absent object is an empty one, and so is an empty array: PHP writes an object without fields as `[]`. */
export function toObject<T> (value: T | readonly [] | null | undefined): T | Properties {
  if (value === undefined || value === null) return {}
  return Array.isArray(value) && value.length === 0 ? {} : value as T
}

/** Spread copies an own key named `__proto__` as data, which assignment would not. */
function merge (inside: unknown, top: Properties): Properties {
  return isFields(inside) ? { ...inside, ...top } : top
}
