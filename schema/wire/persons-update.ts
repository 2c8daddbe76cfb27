import { PERSONS_PARTITIONS } from './streams.ts'

/**
 * What an event changes about persons and groups, as published to PERSONS. One message holds a JSON array of updates
 * of one partition, in the order in which their events were received.
 *
 * Produced by ingest (which has the parsed event in hand), applied by the pipeline in order. Rules and cases:
 * `docs/query/persons.md`.
 */
export type PersonsUpdate = PersonUpdate | MergeUpdate | GroupUpdate | GroupTypeUpdate

interface UpdateOrigin {
  projectId: number
  /** uuid of the event: makes an update recognisable when it is redelivered or sent again by the SDK. */
  uuid: string
  /** Time of the event, epoch milliseconds. */
  timestamp: number
  /** When it was received, epoch milliseconds: only of what is applied later, from a stored event or a dead letter. */
  receivedAt?: number
}

/** Sets properties of the person of a distinct id, who is created when new. */
export interface PersonUpdate extends UpdateOrigin {
  kind: 'person'
  distinctId: string
  set?: Record<string, unknown>
  setOnce?: Record<string, unknown>
  unset?: string[]
  /** The event is of an import: it sets only what no later event has set. */
  byTime?: boolean
  /** The event was an `$identify`: the person counts as identified. */
  identify?: boolean
}

/** Joins the person of `otherDistinctId` into the person of `distinctId`, then sets properties like `person`. */
export interface MergeUpdate extends UpdateOrigin {
  kind: 'merge'
  distinctId: string
  otherDistinctId: string
  /** `identify` and `alias` refuse to merge away an identified person; `force` (`$merge_dangerously`) does not. */
  how: 'identify' | 'alias' | 'force'
  /** False: the first merge with an id that has no person yet leaves the person unidentified. Further ones do not. */
  identify?: false
  /** Takes the place of other merges when a person is split: it identifies nobody. */
  isBridge?: true
  set?: Record<string, unknown>
  setOnce?: Record<string, unknown>
  unset?: string[]
  /** As of `person`, but for a forced merge, which always sets. */
  byTime?: boolean
}

/** Sets properties of a group, which is created when new, as is its group type. */
export interface GroupUpdate extends UpdateOrigin {
  kind: 'group'
  groupType: string
  groupKey: string
  set: Record<string, unknown>
}

/**
 * Gives a group type its index when it has none yet. For events whose `$groups` name a type: once per type and ingest
 * process is enough, more often is harmless.
 */
export interface GroupTypeUpdate extends UpdateOrigin {
  kind: 'groupType'
  groupType: string
}

/**
 * The partition of an update: updates of one partition are applied in the order in which they were published.
 *
 * It follows from the project, not from the person: a merge relates any two persons of a project, so only one order of
 * all updates of a project gives one outcome, and a `$set` sent before the `$identify` that merges its person away is
 * applied before it, as it was meant. Projects never touch each other and go in parallel.
 */
export function personsPartition (update: PersonsUpdate): number {
  return update.projectId % PERSONS_PARTITIONS
}

/** An update without its properties: the persons it creates, merges or identifies. */
export function withoutProperties (update: PersonsUpdate): PersonsUpdate {
  if (update.kind === 'groupType') return update
  if (update.kind === 'group') return { ...update, set: {} }
  const { set: _, setOnce: __, unset: ___, ...rest } = update
  return rest
}

/**
 * Event properties that also describe the person (docs/reference/contract/sdks.md 5.2): of an event that changes a
 * person the latest is set under its own name, and the first under `initialName`.
 */
export const COPIED_PROPERTIES: readonly string[] = [
  '$app_build', '$app_name', '$app_namespace', '$app_version', '$browser', '$browser_version', '$device_type',
  '$current_url', '$pathname', '$os', '$os_name', '$os_version', '$referrer', '$referring_domain', '$screen_height',
  '$screen_width', '$viewport_height', '$viewport_width', '$raw_user_agent',
  'utm_source', 'utm_medium', 'utm_campaign', 'utm_content', 'utm_name', 'utm_term',
  'gclid', 'gad_source', 'gclsrc', 'dclid', 'gbraid', 'wbraid', 'fbclid', 'msclkid', 'twclid', 'li_fat_id', 'mc_cid',
  'igshid', 'ttclid', 'rdt_cid', 'irclid', '_kx', 'epik', 'qclid', 'sccid'
]

/** Under which name a person has the first value of a copied property. */
export function initialName (name: string): string {
  return `$initial_${name.replace(/^\$/, '')}`
}
