/** What two definitions of a flag differ in, as sentences: for changes that were made, and for a draft to be saved. */
import { fieldsOf } from '../../../engines/fields.ts'
import { type Condition, describeCondition, type FlagDefinition, type FlagFilters, type Variant, WRITTEN_FIELDS } from './flag-filters.ts'

/** One difference. Null: it is not there. */
export interface Difference {
  what: string
  before: string | null
  after: string | null
}

/** The fields beside the filters, with what they are called and how their values read. */
const FIELDS: { [name in Exclude<keyof FlagDefinition, 'filters'>]: [what: string, words: Record<string, string>] } = {
  key: ['Key', {}],
  name: ['Name', {}],
  active: ['Switch', { true: 'on', false: 'off for everyone' }],
  ensure_experience_continuity: ['Users keep their value when they are identified', { true: 'yes', false: 'no' }],
  evaluation_runtime: ['For SDKs', { all: 'on servers and clients', server: 'on servers', client: 'on clients' }],
  bucketing_identifier: ['Users are told apart by', { distinct_id: 'distinct id', device_id: 'device id' }]
}

/** The fields of a flag that differ. */
export function changedFields (before: FlagDefinition, after: FlagDefinition): Array<keyof FlagDefinition> {
  return WRITTEN_FIELDS.filter((name) => !isSame(before[name], after[name]))
}

/** Describes every difference, in the order of the editor; none for the same. */
export function describeDifferences (before: FlagDefinition, after: FlagDefinition): Difference[] {
  return changedFields(before, after).flatMap((name) => {
    if (name === 'filters') return describeFilterDifferences(before.filters, after.filters)
    const [what, words] = FIELDS[name]
    const read = (value: unknown): string | null => value === '' ? null : words[String(value)] ?? JSON.stringify(value)
    return [{ what, before: read(before[name]), after: read(after[name]) }]
  })
}

const isSame = (a: unknown, b: unknown): boolean => canonical(a) === canonical(b)

/** JSON with the keys of objects in one order: Postgres keeps no order. */
function canonical (value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => typeof part !== 'object' || part === null || Array.isArray(part)
    ? part
    : Object.fromEntries(Object.entries(part).sort(([a], [b]) => a < b ? -1 : 1))) ?? 'undefined'
}

/** Parts of the filters with lines of their own; any other is shown as JSON. */
const DESCRIBED = new Set(['groups', 'multivariate', 'payloads'])

function describeFilterDifferences (before: FlagFilters, after: FlagFilters): Difference[] {
  const others = namesOf(before, after).filter((name) => !DESCRIBED.has(name)).sort()
  const part = (filters: FlagFilters, name: string): string | null => textOf(fieldsOf(filters)[name])
  const differences = [
    ...describeConditionDifferences(before.groups ?? [], after.groups ?? []),
    ...describeVariantDifferences(before.multivariate?.variants ?? [], after.multivariate?.variants ?? []),
    ...describeEntries('Payload for ', before.payloads ?? {}, after.payloads ?? {}),
    ...others.map((name) => ({ what: name, before: part(before, name), after: part(after, name) }))
  ].filter((difference) => difference.before !== difference.after)
  // The same in other words, such as an empty list for none.
  return differences.length > 0 ? differences : [{ what: 'Filters', before: canonical(before), after: canonical(after) }]
}

function describeEntries (what: string, before: Record<string, unknown>, after: Record<string, unknown>): Difference[] {
  const [old, now] = [new Map(Object.entries(before)), new Map(Object.entries(after))]
  return namesOf(before, after)
    .map((name) => ({ what: what + name, before: textOf(old.get(name)), after: textOf(now.get(name)) }))
}

/** Of the fields of either. */
function namesOf (before: object, after: object): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
}

/** A payload is JSON in a text, which is shown as it is. */
function textOf (value: unknown): string | null {
  return value == null ? null : typeof value === 'string' ? value : canonical(value)
}

function describeVariantDifferences (before: readonly Variant[], after: readonly Variant[]): Difference[] {
  const read = (variants: readonly Variant[]): Record<string, string> =>
    Object.fromEntries(variants.map((variant) => [variant.key, describeVariant(variant)]))
  const differences = describeEntries('Variant ', read(before), read(after))
  const order = (variants: readonly Variant[]): string => variants.map(({ key }) => key).join(', ')
  const isReordered = order(before) !== order(after) && order(sorted(before)) === order(sorted(after))
  // Who gets which variant depends on their order.
  return isReordered ? [...differences, { what: 'Order of the variants', before: order(before), after: order(after) }] : differences
}

function describeVariant ({ rollout_percentage: percentage, name, ...others }: Variant): string {
  return `${percentage} %${(name ?? '') === '' ? '' : `, called ${JSON.stringify(name)}`}` +
    (Object.keys(others).length > 1 ? ` ${canonical(others)}` : '')
}

function sorted (variants: readonly Variant[]): Variant[] {
  return [...variants].sort((a, b) => a.key < b.key ? -1 : 1)
}

/** Conditions have no names: between those that are the same at the start and at the end, one by one is compared. */
function describeConditionDifferences (before: readonly Condition[], after: readonly Condition[]): Difference[] {
  const longer = Math.max(before.length, after.length)
  const isSameAt = (at: number): boolean => isSame(before.at(at), after.at(at))
  let start = 0
  while (start < longer && isSameAt(start)) start++
  let end = 0
  while (start + end < Math.min(before.length, after.length) && isSameAt(-1 - end)) end++
  return Array.from({ length: Math.max(0, longer - end - start) }, (_, index) => {
    const [was, is] = [before, after].map((conditions) => conditions.slice(start, conditions.length - end)[index])
    return { what: `Condition ${start + index + 1}`, ...describeConditions(was, is) }
  })
}

function describeConditions (was: Condition | undefined, is: Condition | undefined): Omit<Difference, 'what'> {
  // Two conditions with one sentence differ in what the sentence leaves out.
  const isSameSentence = was !== undefined && is !== undefined && describeCondition(was) === describeCondition(is)
  const read = (condition: Condition | undefined): string | null =>
    condition === undefined ? null : (isSameSentence ? canonical : describeCondition)(condition)
  return { before: read(was), after: read(is) }
}

/** Characters of a text in a difference, and of what stays around a cut. */
const MAX_CHARACTERS = 400
const AROUND = 60

/** Two texts, cut where both are long and the same, so that the difference is within what is shown. */
export function cutAlike (before: string, after: string): [string, string] {
  if (before.length <= MAX_CHARACTERS && after.length <= MAX_CHARACTERS) return [before, after]
  let start = 0
  while (start < before.length && before[start] === after[start]) start++
  const from = Math.max(0, start - AROUND)
  const cut = (text: string): string => (from === 0 ? '' : '…') + text.slice(from, from + MAX_CHARACTERS) +
    (from + MAX_CHARACTERS < text.length ? '…' : '')
  return [cut(before), cut(after)]
}
