import { hash } from 'node:crypto'
import { isExactNumber } from '../body/parse-json.ts'
import { findUnstorableNumber, UNSTORABLE_NUMBER } from '../body/storable-numbers.ts'
import { DefinitionError } from '../errors.ts'
import { isFields } from '../fields.ts'
import { storedValue } from '../json-schema/evaluation.ts'
import { propertyText } from '../operators/property-test.ts'
import { truncateAddress } from './address-range.ts'
import { type Bounds, compileCondition, type RuledEvent } from './compile-rule-condition.ts'
import { Place, RULE_LIMITS, type RuleAction } from './rule-definition.ts'

export type Properties = Readonly<Record<string, unknown>>

/** A rule, compiled to match and edit events. */
export interface CompiledRule {
  matches: (event: RuledEvent) => boolean
  /** Whether it can do something with events of a name. */
  boundsOf: (event: string) => Bounds
  usesAddress: boolean
  drops: boolean
  /** Share of the distinct ids whose events are stored; null: all. */
  rate: number | null
  /** What it changes of the properties; null: nothing. */
  edit: ((properties: Properties) => Properties) | null
  /** What it makes of the address of the client, which is stored where `$ip` is missing; null: nothing. */
  editAddress: EditAddress | null
}

/** Takes an address, or an empty text for none; what it returns is stored. */
export type EditAddress = (address: string) => string

/** Events that link identities. Never dropped or sampled: without one, a person would stay two for good. */
export const IDENTITY_EVENTS: ReadonlySet<string> = new Set(['$identify', '$create_alias', '$merge_dangerously'])

/** These say who or what an event is about, or whether there is a person at all. */
const IDENTITY_PROPERTIES: ReadonlySet<string> = new Set([
  'distinct_id', '$anon_distinct_id', 'alias', '$group_type', '$group_key', '$process_person_profile'
])

/** What an event says about persons and groups is theirs to say. */
const NOT_SETTABLE: ReadonlySet<string> = new Set(['$set', '$set_once', '$unset', '$groups', '$group_set', '$ip'])

/** Properties of persons and groups within the properties of an event. */
const NESTED = ['$set', '$set_once', '$group_set'] as const

/** The least share: one distinct id in ten thousand. */
const MIN_RATE = 0.0001

/**
 * Compiles a version of a rule.
 *
 * @throws {DefinitionError} naming the first place that cannot be enforced.
 */
export function compileRule (definition: unknown, key: HashKey): CompiledRule {
  const field = new Place(definition, []).fields('condition', 'actions')
  if (sizeOf(definition) > RULE_LIMITS.bytes) throw new DefinitionError([], `A rule has at most ${RULE_LIMITS.bytes} bytes.`)
  // Stored as null, an action would set null, and a condition would be one that does not compile.
  const unstorable = findUnstorableNumber(definition)
  if (unstorable !== null) throw new DefinitionError(unstorable, UNSTORABLE_NUMBER)
  const condition = compileCondition(field('condition'))
  const places = field('actions').entries(RULE_LIMITS.actions)
  const actions = places.map(readAction)
  const drops = actions.some(({ type }) => type === 'drop')
  if (drops && actions.length > 1) throw field('actions').error('A rule that drops events cannot have other actions.')
  const rates = actions.flatMap((action) => action.type === 'sample' ? [action.rate] : [])
  if (rates.length > 1) throw field('actions').error('A rule can sample only once.')
  const sparesIdentity = actions.every(({ type }) => type === 'drop' || type === 'sample')
  const edits = actions.flatMap((action) => compileEdit(action, key) ?? [])
  const addressEdits = actions.flatMap((action) => compileAddressEdit(action, key) ?? [])
  return {
    matches: (event) => !(sparesIdentity && IDENTITY_EVENTS.has(event.event)) && condition.test(event) === true,
    boundsOf: (event) => sparesIdentity && IDENTITY_EVENTS.has(event) ? NEVER : condition.boundsOf(event),
    usesAddress: condition.usesAddress,
    drops,
    rate: rates[0] ?? null,
    edit: edits.length === 0 ? null : (properties) => edits.reduce((edited, edit) => edit(edited), properties),
    editAddress: addressEdits.length === 0
      ? null
      : (address) => addressEdits.reduce((edited, edit) => edit(edited), address)
  }
}

const NEVER: Bounds = { mayPass: false, mayFail: true }

function sizeOf (definition: unknown): number {
  try {
    return Buffer.byteLength(JSON.stringify(definition))
  } catch {
    // The writer gives up some thousand levels down.
    return Infinity
  }
}

function readAction (place: Place): RuleAction {
  const field = place.fields('type', 'rate', 'property', 'value')
  const type = field('type').oneOf(['drop', 'sample', 'remove_property', 'hash_property', 'set_property', 'truncate_ip'] as const)
  const takes: Record<RuleAction['type'], readonly string[]> = {
    drop: [], sample: ['rate'], remove_property: ['property'], hash_property: ['property'],
    set_property: ['property', 'value'], truncate_ip: []
  }
  place.fields('type', ...takes[type])
  switch (type) {
    case 'drop':
    case 'truncate_ip': return { type }
    case 'sample': return { type, rate: readRate(field('rate')) }
    case 'set_property': {
      const property = readProperty(field('property'))
      if (NOT_SETTABLE.has(property)) throw field('property').error('A rule cannot set this property.')
      if (field('value').value === undefined) throw field('value').error('This field is required.')
      return { type, property, value: field('value').value }
    }
    default: return { type, property: readProperty(field('property')) }
  }
}

function readRate (place: Place): number {
  const { value } = place
  if (typeof value !== 'number' || !(value >= MIN_RATE && value < 1)) throw place.error(`Expected a share from ${MIN_RATE} to less than 1.`)
  return value
}

function readProperty (place: Place): string {
  const name = place.propertyName()
  if (IDENTITY_PROPERTIES.has(name)) throw place.error('This property identifies the subject of an event; a rule cannot change it.')
  return name
}

type Edit = (properties: Properties) => Properties

function compileEdit (action: RuleAction, key: HashKey): Edit | null {
  switch (action.type) {
    case 'remove_property': return changeEverywhere(action.property, () => undefined)
    case 'hash_property': return changeEverywhere(action.property, createHashValue(key))
    case 'set_property': return (properties) => ({ ...properties, [action.property]: action.value })
    case 'truncate_ip': return changeEverywhere('$ip', truncateSent)
    default: return null
  }
}

/** What an action says about `$ip` holds for the address of the client, too: it would be stored in its place. */
function compileAddressEdit (action: RuleAction, key: HashKey): EditAddress | null {
  if (action.type === 'truncate_ip') return truncateAddress
  if (!('property' in action) || action.property !== '$ip') return null
  if (action.type === 'remove_property') return () => ''
  const hashValue = createHashValue(key)
  return (address) => hashValue(address) as string
}

/** The address a client sent, if it is a string: not every object can be converted to one. */
function truncateSent (value: unknown): string | undefined {
  return typeof value === 'string' ? truncateAddress(value) || undefined : undefined
}

/**
 * Changes a property of the event, and what the event says of it about its person or group: there it may also be called
 * `$initial_...`, as SDKs name the first value of a property.
 *
 * @param change  Returns undefined to remove the property.
 */
function changeEverywhere (name: string, change: (value: unknown) => unknown): Edit {
  const initial = `$initial_${name.replace(/^\$/, '')}`
  return (properties) => {
    let changed = changeOne(properties, name, change)
    for (const within of NESTED) {
      // Checked first: reading an absent property is slowest.
      if (!Object.hasOwn(properties, within)) continue
      const inner = properties[within]
      if (!isFields(inner)) continue
      const edited = changeOne(changeOne(inner, name, change), initial, change)
      if (edited !== inner) changed = { ...changed, [within]: edited }
    }
    return changed
  }
}

function changeOne (properties: Properties, name: string, change: (value: unknown) => unknown): Properties {
  if (!Object.hasOwn(properties, name)) return properties
  const value = change(properties[name])
  if (value === undefined) {
    const { [name]: _, ...rest } = properties
    return rest
  }
  return value === properties[name] ? properties : { ...properties, [name]: value }
}

/** What rules hash with: a secret of the deployment, and the project, so that projects cannot be joined by hashes. */
interface HashKey {
  secret: Uint8Array
  projectId: number
}

/** Digits of a hash: 96 bits of the value, and 32 by which the hash is known as one of this project. */
const VALUE_DIGITS = 24
const SEAL_DIGITS = 8

/**
 * Makes the keyed hash of values: equal values have equal hashes, and nobody without the secret can find the value. A
 * hash stays as it is, so that an event which comes once more, changed by hand, says the same of its person.
 */
export function createHashValue ({ secret, projectId }: HashKey): (value: unknown) => unknown {
  const hmac = createHmacSha256(secret)
  const digest = (text: string): string => hmac(`${projectId}:${text}`)
  const sealOf = (digits: string): string => digest(`hash:${digits}`).slice(0, SEAL_DIGITS)
  const isHash = (text: string): boolean => text.length === VALUE_DIGITS + SEAL_DIGITS && /^[\da-f]*$/.test(text) &&
    text.slice(VALUE_DIGITS) === sealOf(text.slice(0, VALUE_DIGITS))

  return function hashValue (value) {
    const stored = storedValue(value)
    // There is nothing to hide in them, and queries tell them apart.
    if (stored === null || stored === undefined || stored === '') return value
    // Of a long number the digits, which the table has all.
    const text = propertyText(isExactNumber(value) ? value : stored).toWellFormed()
    if (isHash(text)) return value
    const digits = digest(text).slice(0, VALUE_DIGITS)
    return digits + sealOf(digits)
  }
}

/** Bytes that SHA-256 works on at a time, and of what it makes. */
const BLOCK_BYTES = 64
const DIGEST_BYTES = 32

/** Longer texts, which are rare, get memory of their own. */
const SHORT_TEXT_BYTES = 1024

/**
 * HMAC-SHA-256 (RFC 2104) in hexadecimal, by hashes without an object: that of `createHmac` costs as much again, and
 * has to be collected.
 */
export function createHmacSha256 (secret: Uint8Array): (text: string) => string {
  const key = Buffer.alloc(BLOCK_BYTES)
  key.set(secret.length > BLOCK_BYTES ? hash('sha256', secret, 'buffer') : secret)
  const innerKey = key.map((byte) => byte ^ 0x36)
  const short = Buffer.alloc(BLOCK_BYTES + SHORT_TEXT_BYTES)
  short.set(innerKey)
  const outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES)
  outer.set(key.map((byte) => byte ^ 0x5c))

  return function hmacSha256 (text) {
    // No UTF-16 unit takes more than three bytes.
    const inner = text.length * 3 <= SHORT_TEXT_BYTES ? short : Buffer.concat([innerKey], BLOCK_BYTES + text.length * 3)
    const bytes = inner.write(text, BLOCK_BYTES)
    outer.write(hash('sha256', inner.subarray(0, BLOCK_BYTES + bytes), 'binary'), BLOCK_BYTES, 'latin1')
    return hash('sha256', outer, 'hex')
  }
}
