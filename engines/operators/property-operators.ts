import { compileDateAfter, compileDateBefore, compileDateExact } from './match-date.ts'
import { compileContains, compileContainsAny, compileContainsNone, compileEndsWith, compileExact, compileIsNot, compileNotContains, compileNotEndsWith, compileNotRegex, compileNotStartsWith, compileRegex, compileStartsWith } from './match-text.ts'
import { compileBetween, compileGreater, compileGreaterOrEqual, compileLess, compileLessOrEqual, compileNotBetween } from './match-number.ts'
import { compileSemverCaret, compileSemverEqual, compileSemverGreater, compileSemverGreaterOrEqual, compileSemverLess, compileSemverLessOrEqual, compileSemverNotEqual, compileSemverTilde, compileSemverWildcard } from './match-semver.ts'
import type { CompileTest } from './property-test.ts'

/** Every operator that compares a property of a person or group. */
const OPERATORS: Readonly<Record<string, CompileTest>> = {
  exact: compileExact,
  is_not: compileIsNot,
  is_set: () => ({ test: () => true, whenAbsent: false }),
  is_not_set: () => ({ test: () => false, whenAbsent: true }),
  icontains: compileContains,
  not_icontains: compileNotContains,
  icontains_multi: compileContainsAny,
  not_icontains_multi: compileContainsNone,
  starts_with: compileStartsWith,
  not_starts_with: compileNotStartsWith,
  ends_with: compileEndsWith,
  not_ends_with: compileNotEndsWith,
  regex: compileRegex,
  not_regex: compileNotRegex,
  gt: compileGreater,
  gte: compileGreaterOrEqual,
  lt: compileLess,
  lte: compileLessOrEqual,
  between: compileBetween,
  not_between: compileNotBetween,
  is_date_exact: compileDateExact,
  is_date_before: compileDateBefore,
  is_date_after: compileDateAfter,
  semver_eq: compileSemverEqual,
  semver_neq: compileSemverNotEqual,
  semver_gt: compileSemverGreater,
  semver_gte: compileSemverGreaterOrEqual,
  semver_lt: compileSemverLess,
  semver_lte: compileSemverLessOrEqual,
  semver_tilde: compileSemverTilde,
  semver_caret: compileSemverCaret,
  semver_wildcard: compileSemverWildcard
}

/** Names of the operators, for tests. */
export const PROPERTY_OPERATORS: readonly string[] = Object.keys(OPERATORS)

/** Operators that need no `value`. */
export const OPERATORS_WITHOUT_VALUE: ReadonlySet<string> = new Set(['is_set', 'is_not_set'])

/** The compiler of an operator; null when there is no such operator. */
export function findOperator (name: string): CompileTest | null {
  return Object.hasOwn(OPERATORS, name) ? OPERATORS[name]! : null
}
