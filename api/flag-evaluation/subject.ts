import { type Outcome } from './flag-outcome.ts'

export type Properties = Readonly<Record<string, unknown>>

/** What Postgres knows about a subject; read at most once a request, and only when an answer depends on it. */
export interface StoredFacts {
  /** Properties of the person; empty when there is none. */
  properties: Properties
  /** Properties of the request's groups, by group type index. */
  groupProperties: ReadonlyMap<number, Properties>
  /** Identifier to hash by flag key, for flags with experience continuity. */
  hashKeyOverrides: ReadonlyMap<string, string>
  /** What is not among the overrides may still exist: keeping a new one failed. */
  hashKeysUnknown: boolean
  /** Ids of the static cohorts that the person is in, of those that flags ask for. */
  cohortIds: ReadonlySet<number>
}

/** Whom a request asks about. Changed only by evaluating: `outcomes` fills up, `stored` is set once. */
export interface Subject {
  distinctId: string
  /** The id before the user was identified, as SDKs send it. */
  anonDistinctId: string | null
  deviceId: string | null
  /** Unix milliseconds; the same for all flags of a request. */
  nowMs: number
  /** Properties that the request gives; they win over stored ones. */
  personOverrides: Properties | null
  /** Group keys by group type index; undefined or empty: the request names no such group. */
  groupKeys: ReadonlyArray<string | undefined>
  groupOverrides: ReadonlyArray<Properties | undefined>
  /** Null: not read yet. */
  stored: StoredFacts | null
  /** By position of the flag in its set; remembers what was computed. */
  outcomes: Array<Outcome | undefined>
}

/** The property does not exist. */
export const ABSENT = Symbol('absent')

/** Whether the property exists, and its value, is only known to Postgres, which has not been asked. */
export const UNREAD = Symbol('unread')

/** Facts about a subject of whom nothing is stored. */
export const NO_FACTS: StoredFacts = {
  properties: {},
  groupProperties: new Map(),
  hashKeyOverrides: new Map(),
  hashKeysUnknown: false,
  cohortIds: new Set()
}

/** Gives the value of one property of a subject, ABSENT or UNREAD. */
export type PropertyLookup = (subject: Subject) => unknown

/**
 * Compiles the lookup of a person property: the request's overrides win over stored ones, `distinct_id` always
 * exists, and a missing `$initial_` property is filled from the current one, because events that set it may still
 * be on their way.
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

/** Compiles the lookup of a property of the request's group of a type; without such a group nothing exists. */
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

/** Event properties that persons keep the first value of: with a leading `$`, and campaign parameters without. */
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

/** `$initial_browser` is filled from `$browser`, `$initial_utm_source` from `utm_source`. */
function findCurrentName (name: string): string | null {
  if (!name.startsWith('$initial_')) return null
  const rest = name.slice('$initial_'.length)
  if (WITH_DOLLAR.has(rest)) return `$${rest}`
  return CAMPAIGN.has(rest) ? rest : null
}
