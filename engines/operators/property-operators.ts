import { DATE_OPERATORS } from './match-date.ts'
import { NUMBER_OPERATORS } from './match-number.ts'
import { SEMVER_OPERATORS } from './match-semver.ts'
import { TEXT_OPERATORS } from './match-text.ts'
import type { CompileTest } from './property-test.ts'

/** Every operator that compares a property of a person or group. */
const OPERATORS: Readonly<Record<string, CompileTest>> =
  { ...TEXT_OPERATORS, ...NUMBER_OPERATORS, ...DATE_OPERATORS, ...SEMVER_OPERATORS }

/** Names of the operators, for tests. */
export const PROPERTY_OPERATORS: readonly string[] = Object.keys(OPERATORS)

/** Operators that need no `value`. */
export const OPERATORS_WITHOUT_VALUE: ReadonlySet<string> = new Set(['is_set', 'is_not_set'])

/** The compiler of an operator; null when there is no such operator. */
export function findOperator (name: string): CompileTest | null {
  return Object.hasOwn(OPERATORS, name) ? OPERATORS[name]! : null
}
