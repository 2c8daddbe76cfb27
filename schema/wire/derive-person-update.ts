import { isFields } from '../../engines/fields.ts'
import { toDistinctId } from './identity.ts'
import { COPIED_PROPERTIES, initialName, type MergeUpdate, type PersonUpdate } from './persons-update.ts'

type Properties = Record<string, unknown>

interface EventOrigin {
  projectId: number
  uuid: string
  event: string
  distinctId: string
  /** Epoch milliseconds. */
  timestamp: number
}

/** These describe a broken page or a mouse, not a person. */
const NEVER_PERSON_EVENTS = new Set(['$exception', '$$heatmap'])

/** Whether an event may change its person: false for nearly every one. */
export function mayChangePerson (event: string, properties: Properties): boolean {
  return event === '$identify' || event === '$create_alias' || event === '$merge_dangerously' ||
    properties.$set !== undefined || properties.$set_once !== undefined || properties.$unset !== undefined
}

/**
 * What an event changes about its person; null: nothing. The properties are those that are stored, with `$set` among
 * them, so that the same update follows from the stored event.
 */
export function derivePersonUpdate (
  { event, distinctId, ...origin }: EventOrigin, properties: Properties
): PersonUpdate | MergeUpdate | null {
  const wantsNoPerson = properties.$process_person_profile === false || NEVER_PERSON_EVENTS.has(event)
  if (wantsNoPerson || event === '$groupidentify' || !mayChangePerson(event, properties)) return null
  const changes = changesOf(properties)
  switch (event) {
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

/** Names to unset: a list of names, or the keys of an object. */
export function unsetNames (value: unknown): string[] {
  if (Array.isArray(value)) return value.filter((name) => typeof name === 'string')
  return isFields(value) ? Object.keys(value) : []
}
