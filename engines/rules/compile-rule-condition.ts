/** Conditions of rules: a tree of comparisons of what an event says, with the operators of feature flags. */
import { isExactNumber } from '../body/parse-json.ts'
import { isFields } from '../fields.ts'
import { type CompilePattern, createCompilePattern } from '../json-schema/compile-text.ts'
import { spend } from '../json-schema/evaluation.ts'
import { isTooLongForRegex } from '../operators/match-text.ts'
import { findOperator, OPERATORS_WITHOUT_VALUE } from '../operators/property-operators.ts'
import { propertyText } from '../operators/property-test.ts'
import { compileAddressRange } from './address-range.ts'
import { type Place, RULE_LIMITS } from './rule-definition.ts'

/** What rules see of an event: everything as it is to be stored. */
export interface RuledEvent {
  event: string
  distinctId: string
  properties: Readonly<Record<string, unknown>>
  /** Address of the client; empty when it is unknown. */
  ip: string
  /** Epoch milliseconds: what relative dates are relative to. */
  receivedAt: number
}

/** Whether a condition can pass, and can fail, for some event of a name. */
export interface Bounds {
  mayPass: boolean
  mayFail: boolean
}

/** Undefined: a text is too long, or the steps are used up. Its opposite is not met either. */
type Met = boolean | undefined

export interface CompiledCondition {
  test: (event: RuledEvent) => Met
  boundsOf: (event: string) => Bounds
  /** It asks for the address, which not every stored event has. */
  usesAddress: boolean
}

const TYPES = ['event', 'distinct_id', 'property', 'sdk', 'sdk_version', 'ip'] as const

/**
 * Compiles a condition.
 *
 * @throws {DefinitionError} naming the first place that cannot be enforced.
 */
export function compileCondition (place: Place): CompiledCondition {
  if (place.value == null) return { test: () => true, boundsOf: () => ALWAYS, usesAddress: false }
  let conditions = 0
  const pattern = createCompilePattern()
  return compile(place, 0)

  function compile (at: Place, depth: number): CompiledCondition {
    if (++conditions > RULE_LIMITS.conditions) throw at.error(`A rule has at most ${RULE_LIMITS.conditions} conditions.`)
    if (!isFields(at.value) || !('values' in at.value)) return compileComparison(at, pattern)
    if (depth === RULE_LIMITS.depth) throw at.error(`Groups are at most ${RULE_LIMITS.depth} levels deep.`)
    const field = at.fields('type', 'values', 'negation')
    const type = field('type').oneOf(['AND', 'OR'] as const)
    const members = field('values').entries(RULE_LIMITS.conditions).map((member) => compile(member, depth + 1))
    return negateIf(field('negation'), type === 'AND' ? allOf(members) : anyOf(members))
  }
}

const ALWAYS: Bounds = { mayPass: true, mayFail: false }
const UNKNOWN: Bounds = { mayPass: true, mayFail: true }
const BOUNDS: ReadonlyMap<Met, Bounds> = new Map([[true, ALWAYS], [false, { mayPass: false, mayFail: true }]])

function compileComparison (at: Place, pattern: CompilePattern): CompiledCondition {
  const field = at.fields('type', 'key', 'operator', 'value', 'negation')
  const type = field('type').oneOf(TYPES)
  if (type !== 'property' && field('key').value !== undefined) throw field('key').error('Only a property has a key.')
  if (type === 'ip') return negateIf(field('negation'), compileAddress(field))
  const test = compileTest(field, pattern)
  if (type === 'event') {
    const passes = (event: string): Met => test(event, 0)
    const boundsOf = (event: string): Bounds => BOUNDS.get(passes(event)) ?? UNKNOWN
    return negateIf(field('negation'), { test: ({ event }) => passes(event), boundsOf, usesAddress: false })
  }
  const rest = { boundsOf: () => UNKNOWN, usesAddress: false }
  if (type === 'distinct_id') {
    return negateIf(field('negation'), { test: ({ distinctId, receivedAt }) => test(distinctId, receivedAt), ...rest })
  }
  const name = type === 'sdk' ? '$lib' : type === 'sdk_version' ? '$lib_version' : field('key').propertyName()
  const valueOf = (properties: RuledEvent['properties']): unknown =>
    Object.hasOwn(properties, name) ? properties[name] : ABSENT
  return negateIf(field('negation'), {
    test: ({ properties, receivedAt }) => test(valueOf(properties), receivedAt), ...rest
  })
}

const ABSENT = Symbol('absent')

function compileAddress (field: (name: string) => Place): CompiledCondition {
  if (field('operator').value !== undefined) field('operator').oneOf(['in_range'])
  const isIn = compileAddressRange(field('value'))
  return { test: ({ ip }) => isIn(ip), boundsOf: () => UNKNOWN, usesAddress: true }
}

/** Compiles operator and value; the test takes `ABSENT` for a property that is not there. */
function compileTest (field: (name: string) => Place, pattern: CompilePattern): (actual: unknown, now: number) => Met {
  const operator = field('operator').value ?? 'exact'
  const value = field('value')
  const compile = typeof operator === 'string' ? findOperator(operator) : null
  if (compile === null) throw field('operator').error('There is no such operator.')
  if (OPERATORS_WITHOUT_VALUE.has(operator as string)) {
    const { test, whenAbsent } = compile(undefined, { timezone: 'UTC', invalid: () => {} })
    return (actual, now) => actual === ABSENT ? whenAbsent : test(actual, now)
  }
  checkValue(value)
  const { test, whenAbsent } = operator === 'regex' || operator === 'not_regex'
    ? compileRegex(value, { pattern, negated: operator === 'not_regex' })
    : compile(value.value, { timezone: 'UTC', invalid: (message) => { throw value.error(message) } })
  return (actual, now) => {
    if (actual === ABSENT) return whenAbsent
    const compared = comparable(actual)
    return typeof compared !== 'string' || compared.length <= FREE_LENGTH || spend(compared.length) ? test(compared, now) : undefined
  }
}

/** @throws {DefinitionError} when a value is missing, or is not what operators compare with. */
function checkValue (place: Place): void {
  for (const each of valuesOf(place)) {
    if (each.value === undefined) throw each.error('This field is required.')
    if (!['string', 'number', 'boolean'].includes(typeof each.value)) throw each.error('Expected a text, a number, true or false.')
  }
}

function valuesOf (place: Place): Place[] {
  return Array.isArray(place.value) ? place.entries(RULE_LIMITS.values) : [place]
}

/** Patterns in the engine that schemas use, which take their time from the steps of the event. */
function compileRegex (
  place: Place, { pattern, negated }: { pattern: CompilePattern, negated: boolean }
): { test: (value: unknown) => Met, whenAbsent: boolean } {
  const patterns = valuesOf(place).map((each) => {
    const matches = typeof each.value === 'string' ? pattern(each.value) : 'Expected a regular expression.'
    if (typeof matches === 'string') throw each.error(matches)
    return matches
  })
  const test = (value: unknown): Met => {
    const text = propertyText(value)
    if (isTooLongForRegex(text)) return undefined
    const isMet = patterns.some((matches) => matches(text)) !== negated
    return spend(0) ? isMet : undefined
  }
  return { test, whenAbsent: negated }
}

/** Characters of a text that are compared for free. */
const FREE_LENGTH = 64

/** Of objects and lists the JSON text, whose length is counted. */
function comparable (actual: unknown): unknown {
  return typeof actual === 'object' && actual !== null && !isExactNumber(actual) ? propertyText(actual) : actual
}

function negateIf (place: Place, condition: CompiledCondition): CompiledCondition {
  if (place.value === undefined || place.value === false) return condition
  if (place.value !== true) throw place.error('Expected true or false.')
  return {
    test: (event) => {
      const met = condition.test(event)
      return met === undefined ? undefined : !met
    },
    boundsOf: (event) => {
      const { mayPass, mayFail } = condition.boundsOf(event)
      return { mayPass: mayFail, mayFail: mayPass }
    },
    usesAddress: condition.usesAddress
  }
}

/** `decisive` as soon as one member is; undefined when none is, and one met a limit. */
function decide (members: readonly CompiledCondition[], event: RuledEvent, decisive: boolean): Met {
  let met: Met = !decisive
  for (const { test } of members) {
    const own = test(event)
    if (own === decisive) return decisive
    if (own === undefined) met = undefined
  }
  return met
}

function allOf (members: readonly CompiledCondition[]): CompiledCondition {
  return {
    test: (event) => decide(members, event, false),
    boundsOf: (event) => {
      const bounds = members.map(({ boundsOf }) => boundsOf(event))
      return { mayPass: bounds.every(({ mayPass }) => mayPass), mayFail: bounds.some(({ mayFail }) => mayFail) }
    },
    usesAddress: members.some(({ usesAddress }) => usesAddress)
  }
}

function anyOf (members: readonly CompiledCondition[]): CompiledCondition {
  return {
    test: (event) => decide(members, event, true),
    boundsOf: (event) => {
      const bounds = members.map(({ boundsOf }) => boundsOf(event))
      return { mayPass: bounds.some(({ mayPass }) => mayPass), mayFail: bounds.every(({ mayFail }) => mayFail) }
    },
    usesAddress: members.some(({ usesAddress }) => usesAddress)
  }
}
