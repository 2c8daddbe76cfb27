import type { Outcome } from './flag-outcome.ts'

export type Properties = Readonly<Record<string, unknown>>

/** What Postgres stores about a subject. Read at most once per request, and only if an answer depends on it. */
export interface StoredFacts {
  /** Properties of the person; empty when there is no such person. */
  properties: Properties
  /** Properties of the request's groups, by group type index. */
  groupProperties: ReadonlyMap<number, Properties>
  /** By flag key: the id to hash instead of the distinct id, for flags with experience continuity. */
  hashKeyOverrides: ReadonlyMap<string, string>
  /** `hashKeyOverrides` may be incomplete, because storing a new one failed. */
  hashKeysUnknown: boolean
  /** The static cohorts of the person, among those that flags refer to. */
  cohortIds: ReadonlySet<number>
}

/** The user and groups of a request. Evaluation fills `outcomes` and sets `stored` once; the rest is constant. */
export interface Subject {
  distinctId: string
  /** The id that the user had before being identified, as SDKs send it. */
  anonDistinctId: string | null
  deviceId: string | null
  /** Unix milliseconds; the same for all flags of a request. */
  nowMs: number
  /** Properties sent with the request; they take precedence over stored ones. */
  personOverrides: Properties | null
  /** Group keys by group type index; undefined or empty when the request names no such group. */
  groupKeys: ReadonlyArray<string | undefined>
  groupOverrides: ReadonlyArray<Properties | undefined>
  /** Null: not read yet. */
  stored: StoredFacts | null
  /** Outcomes computed so far, by position of the flag in its set. */
  outcomes: Array<Outcome | undefined>
}

/** The property does not exist. */
export const ABSENT = Symbol('absent')

/** The property may exist in Postgres, which has not been read. */
export const UNREAD = Symbol('unread')

/** Facts about a subject with nothing stored. */
export const NO_FACTS: StoredFacts = {
  properties: {},
  groupProperties: new Map(),
  hashKeyOverrides: new Map(),
  hashKeysUnknown: false,
  cohortIds: new Set()
}

/** Returns the value of one property of a subject, ABSENT or UNREAD. */
export type PropertyLookup = (subject: Subject) => unknown

/**
 * Compiles the lookup of a person property. Properties of the request take precedence over stored ones, `distinct_id`
 * always exists, and a missing `$initial_` property falls back to the current one, because the event that sets it may
 * not be processed yet.
 */
export function compilePersonLookup (name: string): PropertyLookup {
  if (name === 'distinct_id') {
    return (subject) => ownOr(subject.personOverrides, name, subject.distinctId)
  }
  const current = findCurrentName(name)
  const lookup: PropertyLookup = ({ personOverrides, stored }) => {
    if (personOverrides !== null && Object.hasOwn(personOverrides, name)) return personOverrides[name]
    return stored === null ? UNREAD : ownOr(stored.properties, name, ABSENT)
  }
  if (current === null) return lookup
  const lookupCurrent = compilePersonLookup(current)
  return (subject) => {
    const initial = lookup(subject)
    return initial === ABSENT ? lookupCurrent(subject) : initial
  }
}

/** Compiles the lookup of a property of the request's group of one type; ABSENT when the request has no such group. */
export function compileGroupLookup (groupTypeIndex: number, name: string): PropertyLookup {
  return (subject) => {
    const overrides = subject.groupOverrides[groupTypeIndex]
    if (overrides !== undefined && Object.hasOwn(overrides, name)) return overrides[name]
    const key = subject.groupKeys[groupTypeIndex]
    if (key === undefined) return ABSENT
    if (name === '$group_key') return key
    if (subject.stored === null) return UNREAD
    return ownOr(subject.stored.groupProperties.get(groupTypeIndex) ?? null, name, ABSENT)
  }
}

function ownOr (properties: Properties | null, name: string, otherwise: unknown): unknown {
  return properties !== null && Object.hasOwn(properties, name) ? properties[name] : otherwise
}

/** Event properties whose first value persons keep as `$initial_...`: with a leading `$`, and campaign ones without. */
const WITH_DOLLAR = new Set([
  'app_build', 'app_name', 'app_namespace', 'app_version', 'browser', 'browser_version', 'current_url', 'device_type',
  'os', 'os_version', 'pathname', 'raw_user_agent', 'referrer', 'referring_domain', 'screen_height', 'screen_width',
  'viewport_height', 'viewport_width'
])
const CAMPAIGN = new Set([
  'utm_source', 'utm_medium', 'utm_campaign', 'utm_content', 'utm_term', 'gclid', 'gad_source', 'gclsrc', 'dclid',
  'gbraid', 'wbraid', 'fbclid', 'msclkid', 'twclid', 'li_fat_id', 'mc_cid', 'igshid', 'ttclid', 'rdt_cid', 'epik',
  'qclid', 'sccid', 'irclid', '_kx'
])

/** `$initial_browser` falls back to `$browser`, `$initial_utm_source` to `utm_source`. */
function findCurrentName (name: string): string | null {
  if (!name.startsWith('$initial_')) return null
  const rest = name.slice('$initial_'.length)
  if (WITH_DOLLAR.has(rest)) return `$${rest}`
  return CAMPAIGN.has(rest) ? rest : null
}

/** The groups of a subject: the index of the type, and the key. */
export function groupKeysOf ({ groupKeys }: Pick<Subject, 'groupKeys'>): Map<number, string> {
  return new Map(Object.entries(groupKeys).flatMap(([index, key]): Array<[number, string]> =>
    key === undefined ? [] : [[Number(index), key]]))
}
