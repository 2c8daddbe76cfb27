import { begin, type Origin } from '../json-schema/evaluation.ts'
import type { RuledEvent } from './compile-rule-condition.ts'
import { type CompiledRule, type EditAddress, IDENTITY_EVENTS, type Properties } from './compile-rule.ts'

/** A rule that is enforced. Crosses threads without `compiled`. */
export interface ActiveRule {
  id: number
  name: string
  version: number
  /** The JSON text of the version. */
  text: string
  compiled: CompiledRule
}

/** What rules did with an event. */
export type RuleOutcome =
  /** Not stored; its distinct id is not in the share (`sampled`), or the rule drops it. */
  | { kind: 'dropped' | 'sampled', rule: ActiveRule }
  | {
    kind: 'stored'
    properties: Properties
    /** How many events it stands for. */
    weight: number
    /** How the address of the client is cut before it is stored as `$ip`; null: not at all. */
    editAddress: EditAddress | null
    changedBy: readonly ActiveRule[]
  }

/** Names of events whose rules are remembered; beyond, the memory starts over. */
const MAX_NAMES = 5000

const NONE: readonly ActiveRule[] = []

/** The active rules of a project, in their order; never changed: another set takes its place. */
export class ProjectRules {
  readonly rules: readonly ActiveRule[]
  #byEvent = new Map<string, readonly ActiveRule[]>()

  constructor (rules: readonly ActiveRule[]) {
    this.rules = rules
  }

  /** The rules that may do something with events of a name: what they say about the name is decided once. */
  of (event: string): readonly ActiveRule[] {
    const known = this.#byEvent.get(event)
    if (known !== undefined) return known
    if (this.#byEvent.size === MAX_NAMES) this.#byEvent = new Map()
    const found = this.rules.filter(({ compiled }) => compiled.boundsOf(event).mayPass)
    const of = found.length === 0 ? NONE : found
    this.#byEvent.set(event, of)
    return of
  }
}

/**
 * Runs the rules of a project over an event, in their order: each sees the properties as the ones before have left
 * them.
 *
 * @param origin  Where the properties come from: the table, or a client.
 * @returns null when no rule has something to do with the event.
 */
export function applyRules (rules: ProjectRules, event: RuledEvent, origin: Origin): RuleOutcome | null {
  const candidates = rules.of(event.event)
  if (candidates.length === 0) return null
  begin(origin)
  let { properties } = event
  let ruled = event
  let weight = 1
  let editAddress: EditAddress | null = null
  let changedBy: ActiveRule[] | null = null
  for (const rule of candidates) {
    const { matches, drops, rate, edit, editAddress: editsAddress } = rule.compiled
    if (!matches(ruled)) continue
    if (drops) return { kind: 'dropped', rule }
    if (rate !== null && !IDENTITY_EVENTS.has(event.event)) {
      if (shareOf(event.distinctId) >= rate) return { kind: 'sampled', rule }
      // The shares lie within each other, so the smallest one decides.
      weight = Math.max(weight, 1 / rate)
    }
    const edited = edit === null ? properties : edit(properties)
    if (edited !== properties || editsAddress !== null) (changedBy ??= []).push(rule)
    if (editsAddress !== null) editAddress = inTurn(editAddress, editsAddress)
    if (edited === properties) continue
    properties = edited
    ruled = { ...event, properties }
  }
  if (weight === 1 && changedBy === null) return null
  return { kind: 'stored', properties, weight, editAddress, changedBy: changedBy ?? NONE }
}

function inTurn (first: EditAddress | null, second: EditAddress): EditAddress {
  return first === null ? second : (address) => second(first(address))
}

/**
 * Where a distinct id lies between 0 and 1: the same for every rule, process and version. So a rate that is raised
 * keeps everybody it had, and all events of somebody are stored, or none.
 */
export function shareOf (distinctId: string): number {
  let hash = 0x9747b28c
  for (let at = 0; at < distinctId.length; at++) hash = Math.imul(hash ^ distinctId.charCodeAt(at), 0x01000193)
  // FNV leaves the high bits weak for short texts: the finaliser of MurmurHash3 spreads them.
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 0x1_0000_0000
}
