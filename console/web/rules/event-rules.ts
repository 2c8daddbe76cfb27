/** Rules as the API answers them, and as sentences. A draft may be anything, so nothing here trusts its shape. */
import { isFields } from '../../../engines/fields.ts'
import { describeFilter } from '../flags/flag-filters.ts'
import { formatCount } from '../format.ts'
import type { Answer, Schema } from '../../api-types.ts'
import type { DraftLanguage } from '../frame/json-text.ts'

/** What makes a version of a rule. Condition null: every event. */
export interface RuleContent {
  condition: unknown
  actions: unknown
}

export type EventRule = Schema<'EventRule'>
export type RuleVersion = Answer<'/api/projects/{project_id}/rules/{id}/versions'>['results'][number]

export type RuleCounts = Answer<'/api/projects/{project_id}/rules/counts'>['results'][number]
export type RulePrediction = Answer<'/api/projects/{project_id}/rules/{id}/check', 'post'>

/** The fields of a draft, and nothing else: other fields of a rule are changed elsewhere. */
const FIELDS = ['condition', 'actions']

/** A draft as the API takes it, or why it does not. */
export function readContent (
  value: unknown
): { fields: RuleContent, error?: undefined } | { error: { message: string, attr: string | null } } {
  if (!isFields(value)) return { error: { message: 'A rule must be an object with condition and actions.', attr: null } }
  const unknown = Object.keys(value).find((name) => !FIELDS.includes(name))
  if (unknown !== undefined) return { error: { message: 'Only condition and actions are allowed here.', attr: unknown } }
  if (!Array.isArray(value['actions'])) return { error: { message: 'A rule needs a list of actions.', attr: 'actions' } }
  // Omitted fields would keep their values in the newest version.
  return { fields: { condition: value['condition'] ?? null, actions: value['actions'] } }
}

export const RULE_LANGUAGE: DraftLanguage = {
  read: readContent,
  contentOf: ({ condition, actions }: RuleContent) => ({ condition, actions }),
  isOf: (attr) => FIELDS.includes(attr?.split('__')[0] ?? ''),
  root: ''
}

/** `When the event is "paid" and plan is "free": drop it.` */
export function describeRule ({ condition, actions }: Partial<RuleContent>): string {
  const when = condition == null ? 'Every event' : `When ${describeCondition(condition)}`
  return `${when}: ${describeActions(actions)}.`
}

/** `on, version 2`. */
export function describeState ({ active_version: active }: Pick<EventRule, 'active_version'>): string {
  return active === null ? 'off' : `on, version ${active}`
}

/** The subject of a comparison by its type; of a property it is its key. */
const SUBJECTS: Record<string, string> = {
  event: 'the event', distinct_id: 'the distinct id', sdk: 'the SDK', sdk_version: 'the version of the SDK', ip: 'the address'
}

/** `the event is "paid" and (plan is "free" or plan is not set)`. */
export function describeCondition (condition: unknown): string {
  return describe(condition, true)
}

function describe (condition: unknown, isOutermost: boolean): string {
  if (!isFields(condition)) return UNREADABLE
  const { values, type, negation } = condition
  if (!Array.isArray(values)) {
    const comparison = describeComparison(condition)
    return negation === true ? `not (${comparison})` : comparison
  }
  const [first, ...others] = values.map((each) => describe(each, false))
  if (first === undefined) return UNREADABLE
  const members = [first, ...others].join(type === 'OR' ? ' or ' : ' and ')
  if (negation === true) return `not (${members})`
  return isOutermost || others.length === 0 ? members : `(${members})`
}

function describeComparison ({ type, key, operator, value }: Record<string, unknown>): string {
  const subject = type === 'property' ? String(key) : SUBJECTS[String(type)] ?? UNREADABLE
  if (type === 'ip') return `${subject} is in ${(Array.isArray(value) ? value : [value]).map(String).join(' or ')}`
  return describeFilter({ key: subject, operator: typeof operator === 'string' ? operator : 'exact', value })
}

/** `hash email and remove phone`. */
export function describeActions (actions: unknown): string {
  if (!Array.isArray(actions) || actions.length === 0) return UNREADABLE
  return actions.map(describeAction).join(' and ')
}

function describeAction (action: unknown): string {
  if (!isFields(action)) return UNREADABLE
  const { type, property, value, rate } = action
  switch (type) {
    case 'drop': return 'drop it'
    case 'sample': return `store it for ${Number((Number(rate) * 100).toPrecision(6))} % of all distinct ids`
    case 'remove_property': return `remove ${String(property)}`
    case 'hash_property': return `hash ${String(property)}`
    case 'set_property': return `set ${String(property)} to ${JSON.stringify(value) ?? 'nothing'}`
    case 'truncate_ip': return 'cut its address to the network'
    default: return String(type)
  }
}

export function describePrediction ({ events, matched, dropped, sampled, changed, complete }: RulePrediction): string {
  if (matched === 0) return `It would not have affected any of the ${formatCount(events)} ${complete ? '' : 'newest '}candidate events.`
  const fates = [[dropped, 'dropped'], [sampled, 'left out of the sample'], [changed, 'changed']] as const
  const done = fates.filter(([count]) => count > 0).map(([count, fate]) => `${formatCount(count)} ${fate}`)
  return `${formatCount(matched)} of ${formatCount(events)} ${complete ? '' : 'newest '}events pass: ${done.length === 0 ? 'all are stored as they are' : done.join(', ')}.`
}

/** Positions have a gap of so much when they are given anew. */
const STEP = 10
const LAST_POSITION = 1_000_000

type Placed = Pick<EventRule, 'id' | 'position'>

/**
 * What has to be changed, and in which order, so that a rule runs one place earlier or later: as few positions as
 * possible.
 *
 * @param rules  All of a project, in order.
 */
export function planMove (rules: readonly Placed[], from: number, by: -1 | 1): Placed[] {
  const to = from + by
  const moved = rules[from]
  if (moved === undefined || rules[to] === undefined) return []
  const order = rules.filter((_, index) => index !== from)
  order.splice(to, 0, moved)
  const before = order[to - 1]?.position ?? -1
  const after = order[to + 1]?.position ?? Math.min(LAST_POSITION + 1, before + 2 * STEP)
  // Between its neighbours there may be room; rules of one position run by their age, so it needs one of its own.
  if (after - before > 1) return [{ id: moved.id, position: Math.floor((before + after) / 2) }]
  const places = order.map(({ id, position: old }, index) => ({ id, old, position: (index + 1) * STEP }))
  // Ingest follows each change: the others stay in their order in between.
  const up = places.filter(({ old, position }) => position < old)
  const down = places.filter(({ old, position }) => position > old).reverse()
  return [...up, ...down].map(({ id, position }) => ({ id, position }))
}

const UNREADABLE = '…'
