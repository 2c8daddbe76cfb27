import { fieldsOf, isFields } from '../fields.ts'
import { applyRules, ProjectRules, shareOf } from './apply-rules.ts'
import type { RuledEvent } from './compile-rule-condition.ts'
import { type CompiledRule, compileRule } from './compile-rule.ts'
import { Place, RULE_LIMITS } from './rule-definition.ts'

/** What a test says of a property that is hashed: nobody can know the hash beforehand. */
const HASHED = '$hashed'

/** Hashes of tests are made with it, so that none of them tells anything about the deployment. */
const TEST_KEY = { secret: new Uint8Array(16), projectId: 0 }

/** A distinct id that every share includes, so that a test says what happens to events that are stored. */
const KEPT = findKept()

/**
 * Compiles a version of a rule, and tries its tests.
 *
 * @throws {RuleError} naming what cannot be enforced, or the test whose event is treated otherwise.
 */
export function checkRule (definition: unknown): CompiledRule {
  const compiled = compileRule(definition, TEST_KEY)
  const { tests } = fieldsOf(definition)
  if (tests === undefined) return compiled
  const rules = new ProjectRules([{ id: 0, name: '', version: 0, text: '', compiled }])
  for (const place of new Place(tests, ['tests']).entries(RULE_LIMITS.tests, 0)) runTest(place, compiled, rules)
  return compiled
}

function runTest (place: Place, compiled: CompiledRule, rules: ProjectRules): void {
  const field = place.fields('name', 'event', 'matches', 'properties')
  const name = field('name')
  if (name.value !== undefined && typeof name.value !== 'string') throw name.error('A text is expected.')
  const sent = readEvent(field('event'))
  const { value: expected } = field('matches')
  if (typeof expected !== 'boolean') throw field('matches').error('true or false is expected.')
  const isMatch = compiled.boundsOf(sent.event).mayPass && compiled.matches(sent)
  if (isMatch !== expected) throw field('matches').error(isMatch ? 'The rule does something with this event.' : 'The rule does nothing with this event.')
  const wanted = field('properties')
  if (wanted.value === undefined) return
  if (!isFields(wanted.value)) throw wanted.error('An object is expected.')
  const outcome = applyRules(rules, { ...sent, distinctId: compiled.rate === null ? sent.distinctId : KEPT }, 'stored')
  if (outcome?.kind === 'dropped') throw wanted.error('The rule drops this event: it has no properties afterwards.')
  const after = outcome?.kind === 'stored' ? outcome.properties : sent.properties
  for (const [property, value] of Object.entries(wanted.value)) {
    const actual = Object.hasOwn(after, property) ? after[property] : null
    const isHashed = value === HASHED && typeof actual === 'string' && /^[\da-f]{32}$/.test(actual) && actual !== sent.properties[property]
    if (isHashed || JSON.stringify(actual) === JSON.stringify(value)) continue
    throw new Place(value, [...wanted.path, property]).error(`It is ${JSON.stringify(actual).slice(0, 200)} afterwards.`)
  }
}

function readEvent (place: Place): RuledEvent {
  const field = place.fields('event', 'distinct_id', 'properties', 'ip')
  const text = (name: string, absent?: string): string => {
    const { value = absent } = field(name)
    if (typeof value !== 'string') throw field(name).error('A text is expected.')
    return value
  }
  const { value: properties = {} } = field('properties')
  if (!isFields(properties)) throw field('properties').error('An object is expected.')
  return { event: text('event'), distinctId: text('distinct_id', 'test'), properties, ip: text('ip', ''), receivedAt: Date.now() }
}

function findKept (): string {
  let best = ''
  for (let index = 0; index < 100_000; index++) {
    if (shareOf(`kept ${index}`) < shareOf(best)) best = `kept ${index}`
  }
  return best
}
