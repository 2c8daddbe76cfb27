/** What a query names by a string: formats, aggregate functions, and types that hold states of these. */
import { denied } from '../http/query-errors.ts'
import type { AllowList } from './allow-list.ts'
import type { CanonicalToken } from './canonical-query.ts'

/** These take a format as their first argument or parameter, the aggregate function with any combinators, too. */
const FORMATS = new Set(['formatrow', 'formatrownonewline', 'groupformat'])
/** These take an aggregate function as their first argument. */
const AGGREGATES = new Set(['arrayreduce', 'arrayreduceinranges', 'initializeaggregation'])
/** These take a type as their second argument, of which a text may become the state of an aggregate function. */
const CASTS = new Set(['cast', '_cast', 'accuratecast', 'accuratecastornull', 'accuratecastordefault'])

/** Modes whose cost is the square of a group's rows or more, in a step that cannot be cancelled. */
const ENDLESS_MODES: ReadonlyMap<string, string> = new Map([['windowfunnel', 'strict_once'], ['kolmogorovsmirnovtest', 'exact']])

const COMBINATOR = /(if|array|map|simplestate|state|merge|foreach|distinct|ordefault|ornull|resample|argmin|argmax|null|tuple)$/

/** A type with a state in it, whose function may be behind a version. */
const STATE_TYPE = /aggregatefunction\s*\(\s*(?:\d+\s*,\s*)?(\w+)/gi

/**
 * Judges the strings that a name takes for names. The engine takes any constant there, whatever it is computed from,
 * and an alias may be called like anything: so only a literal in its place is one, and all else is refused.
 *
 * @throws {QueryError} 497.
 */
export function judgeNamedByString (tokens: readonly CanonicalToken[], i: number, allow: AllowList): void {
  const token = tokens[i]!
  if (token.kind === 'string' || token.kind === 'quoted') return judgeStates(token.text, allow)
  const name = token.text.toLowerCase()
  const base = findAggregate(name, allow) ?? name
  const [isFormat, isAggregate, isCast] = [FORMATS.has(base), AGGREGATES.has(name), CASTS.has(name)]
  if (ENDLESS_MODES.has(base) && tokens[i + 1]?.text === '(') judgeModes(base, argumentsOf(tokens, i + 1).flat())
  if (!isFormat && !isAggregate && !isCast) return
  const isCall = tokens[i + 1]?.text === '('
  if (!isCall && (isCast || tokens[i - 1]?.text === '.')) return
  const literal = isCall ? literalOf(argumentsOf(tokens, i + 1)[isCast ? 1 : 0]) : undefined
  if (literal === undefined) throw denied(`function ${token.text} without a literal for what it names`)
  if (isFormat) judgeFormatName(literal, allow)
  if (isAggregate) judgeAggregate(literal, allow)
}

/** @throws {QueryError} 497 for a format that reads a schema or asks another server. */
export function judgeFormatName (name: string, allow: AllowList): void {
  if (!allow.formats.has(name.toLowerCase())) throw denied(`format ${name}`)
}

/** The allowed aggregate function of a name in lower case, without its combinators. */
export function findAggregate (name: string, allow: AllowList): string | undefined {
  for (let base = name; base !== ''; base = base.replace(COMBINATOR, '')) {
    if (allow.aggregateFunctions.has(base)) return base
    if (!COMBINATOR.test(base)) return undefined
  }
  return undefined
}

/** `sum`, `quantileIf(0.5)`. Formats are named by calls only. */
function judgeAggregate (literal: string, allow: AllowList): void {
  const name = /^(\w+)(\(.*\))?$/s.exec(literal)?.[1]
  const base = name === undefined ? undefined : findAggregate(name.toLowerCase(), allow)
  if (base === undefined || FORMATS.has(base)) throw denied(`aggregate function ${literal}`)
  const mode = ENDLESS_MODES.get(base)
  if (mode !== undefined && literal.includes(mode)) throw denied(`mode ${mode} of ${base}`)
}

/** Parameters are literals, so that none is computed. */
function judgeModes (base: string, parameters: readonly CanonicalToken[]): void {
  const mode = ENDLESS_MODES.get(base)!
  const isRefused = parameters.some(({ kind, text }) => kind === 'string' && text.includes(mode))
  if (isRefused) throw denied(`mode ${mode} of ${base}`)
}

/** Types stand in strings and in quoted names: in casts, structures of tables, paths of JSON. */
function judgeStates (text: string, allow: AllowList): void {
  for (const [, name = ''] of text.matchAll(STATE_TYPE)) judgeAggregate(name, allow)
}

/** The text of a single string; undefined for every other argument. */
function literalOf (argument: readonly CanonicalToken[] | undefined): string | undefined {
  return argument?.length === 1 && argument[0]!.kind === 'string' ? argument[0]!.text.slice(1, -1) : undefined
}

/** What stands between the commas of a bracket. */
export function argumentsOf (tokens: readonly CanonicalToken[], open: number): CanonicalToken[][] {
  const found: CanonicalToken[][] = []
  let start = open + 1
  const close = findClose(tokens, open, (comma) => {
    found.push(tokens.slice(start, comma))
    start = comma + 1
  })
  return [...found, tokens.slice(start, close)]
}

/** The bracket that closes another one; the end of the query for none. */
export function findClose (tokens: readonly CanonicalToken[], open: number, onComma?: (at: number) => void): number {
  let depth = 0
  for (let at = open; at < tokens.length; at++) {
    const token = tokens[at]
    if (token?.kind !== 'symbol') continue
    if ('([{'.includes(token.text)) depth++
    else if (')]}'.includes(token.text) && --depth === 0) return at
    else if (token.text === ',' && depth === 1) onComma?.(at)
  }
  return tokens.length
}
