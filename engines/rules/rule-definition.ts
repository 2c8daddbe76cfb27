/** What a rule is made of, as people write it. */
import { DefinitionError } from '../errors.ts'
import { isFields } from '../fields.ts'

/** What a rule does with the events that pass its condition. */
export type RuleAction =
  | { type: 'drop' }
  /** Stores the events of a share of all distinct ids. */
  | { type: 'sample', rate: number }
  | { type: 'remove_property', property: string }
  | { type: 'hash_property', property: string }
  | { type: 'set_property', property: string, value: unknown }
  | { type: 'truncate_ip' }

/** One version of a rule. */
export interface RuleDefinition {
  /** A condition, or `{ type: 'AND' | 'OR', values }` of several; left out: every event. */
  condition?: unknown
  actions: unknown
}

/** Bounds of a rule (docs/change/rules-and-schemas.md). */
export const RULE_LIMITS = {
  /** Of its JSON text. */
  bytes: 32_768,
  /** Groups inside groups. */
  depth: 8,
  conditions: 100,
  /** Texts of a condition. */
  values: 1000,
  actions: 20,
  /** Characters of a name of a property. */
  nameLength: 200
} as const

/** A path in a rule, and its value. */
export class Place {
  readonly value: unknown
  readonly path: readonly string[]

  constructor (value: unknown, path: readonly string[]) {
    this.value = value
    this.path = path
  }

  error (message: string): DefinitionError {
    return new DefinitionError(this.path, message)
  }

  /** @throws {DefinitionError} when this is no object, or has other fields. */
  fields (...known: readonly string[]): (name: string) => Place {
    const { value } = this
    if (!isFields(value)) throw this.error('Expected an object.')
    for (const name of Object.keys(value)) {
      if (!known.includes(name)) throw new DefinitionError([...this.path, name], 'This field is not known.')
    }
    return (name) => new Place(Object.hasOwn(value, name) ? value[name] : undefined, [...this.path, name])
  }

  /** @throws {DefinitionError} when this is no list of 1 to `limit` entries. */
  entries (limit: number, least = 1): Place[] {
    if (!Array.isArray(this.value) || this.value.length < least) throw this.error(`Expected a ${least === 1 ? 'non-empty ' : ''}list${least > 1 ? ` of ${least} to ${limit} entries` : ''}.`)
    if (this.value.length > limit) throw this.error(`At most ${limit} entries are possible.`)
    return this.value.map((value, index) => new Place(value, [...this.path, String(index)]))
  }

  /** @throws {DefinitionError} unless this is one of the words. */
  oneOf<T extends string> (words: readonly T[]): T {
    const found = words.find((word) => word === this.value)
    if (found === undefined) throw this.error(`Expected one of ${words.join(', ')}.`)
    return found
  }

  /** This, or what a field that is left out means. */
  or (value: unknown): Place {
    return this.value === undefined || this.value === null ? new Place(value, this.path) : this
  }

  /** @throws {DefinitionError} unless this is a whole number within the bounds. */
  integer (least: number, most: number): number {
    const { value } = this
    if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value
    throw this.error(`Expected a whole number from ${least} to ${most}.`)
  }

  /** @throws {DefinitionError} unless this is true, false or left out, which is false. */
  flag (): boolean {
    const { value } = this.or(false)
    if (typeof value !== 'boolean') throw this.error('Expected true or false.')
    return value
  }

  /**
   * The name of a property. `__proto__` is not one: it means another thing wherever an object is made of names.
   *
   * @throws {DefinitionError}
   */
  propertyName (): string {
    const { value } = this
    if (typeof value !== 'string' || value === '' || value.length > RULE_LIMITS.nameLength) {
      throw this.error(`Expected a name of 1 to ${RULE_LIMITS.nameLength} characters.`)
    }
    if (value === '__proto__') throw this.error('The name __proto__ is not allowed.')
    return value
  }
}
