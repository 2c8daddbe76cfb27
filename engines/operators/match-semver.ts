import { type CompileTest, NEVER, propertyText, rememberTexts } from './property-test.ts'

/** Major, minor, patch. */
export type Version = readonly [number, number, number]

type ReadRange = (text: string) => readonly [Version, Version] | null

/** `~1.2.3`: from 1.2.3 up to, not including, 1.3.0. */
export const readTilde: ReadRange = (text) => {
  const from = parseVersion(text)
  return from && [from, [from[0], from[1] + 1, 0]]
}

/** `^1.2.3`: from 1.2.3 up to, not including, 2.0.0. As in npm, `^0.2.3` ends at 0.3.0 and `^0.0.3` at 0.0.4. */
export const readCaret: ReadRange = (text) => {
  const from = parseVersion(text)
  if (from === null) return null
  const [major, minor, patch] = from
  if (major > 0) return [from, [major + 1, 0, 0]]
  return minor > 0 ? [from, [0, minor + 1, 0]] : [from, [0, 0, patch + 1]]
}

/** `1.*` and `1.2.*`; a lone `*` matches every version. */
export const readWildcard: ReadRange = (text) => {
  const core = withoutWildcards(text.trim().replace(/^[vV]/, ''))
  if (core === '') return text.includes('*') ? [[0, 0, 0], [Number.POSITIVE_INFINITY, 0, 0]] : null
  const parts = core.split('.').map(parsePart)
  const [major = null, minor] = parts
  if (major === null || minor === null || parts.includes(null)) return null
  return minor === undefined
    ? [[major, 0, 0], [major + 1, 0, 0]]
    : [[major, minor, 0], [major, minor + 1, 0]]
}

/** All are false for a missing version. */
export const SEMVER_OPERATORS = {
  semver_eq: compileComparison((order) => order === 0),
  semver_neq: compileComparison((order) => order !== 0),
  semver_gt: compileComparison((order) => order > 0),
  semver_gte: compileComparison((order) => order >= 0),
  semver_lt: compileComparison((order) => order < 0),
  semver_lte: compileComparison((order) => order <= 0),
  semver_tilde: compileRange(readTilde),
  semver_caret: compileRange(readCaret),
  semver_wildcard: compileRange(readWildcard)
}

/** The text without the `*` and `.*` at its end. From the end, as a pattern tries from the beginning of each run. */
function withoutWildcards (text: string): string {
  let end = text.length
  while (text[end - 1] === '*') end -= text[end - 2] === '.' ? 2 : 1
  return text.slice(0, end)
}

function compileComparison (passes: (order: number) => boolean): CompileTest {
  return (value, { invalid }) => {
    const expected = parseVersion(propertyText(value))
    if (expected === null) {
      invalid('The value must be a version like 1.2.3.')
      return NEVER
    }
    const test = (actual: unknown): boolean => {
      const version = parseVersion(propertyText(actual))
      return version !== null && passes(compareVersions(version, expected))
    }
    return { test, whenAbsent: false }
  }
}

function compileRange (parse: ReadRange): CompileTest {
  return (value, { invalid }) => {
    const range = parse(propertyText(value))
    if (range === null) {
      invalid('The value must be a version like 1.2.3, or 1.2.* for a wildcard.')
      return NEVER
    }
    const [from, below] = range
    const test = (actual: unknown): boolean => {
      const version = parseVersion(propertyText(actual))
      return version !== null && compareVersions(version, from) >= 0 && compareVersions(version, below) < 0
    }
    return { test, whenAbsent: false }
  }
}

/**
 * Reads a version as loosely as SDKs do: a leading v, pre-release, build and parts after the third are ignored, missing
 * parts are 0, leading zeros are allowed. Null when a part is not a number.
 */
export const parseVersion = rememberTexts((text): Version | null => {
  const core = text.trim().replace(/^[vV]/, '').split(/[-+]/, 1)[0]!
  if (core === '' || core.startsWith('.')) return null
  const [major, minor, patch] = core.split('.', 3).map((part) => (part === '' ? 0 : parsePart(part)))
  if (major === null || minor === null || patch === null) return null
  return [major ?? 0, minor ?? 0, patch ?? 0]
})

function parsePart (part: string): number | null {
  return /^\d+$/.test(part) ? Number(part) : null
}

function compareVersions (a: Version, b: Version): number {
  return a[0] - b[0] || a[1] - b[1] || a[2] - b[2]
}
