/**
 * Keeps each step of a query short. The engine checks for cancellation and time-outs only between blocks of rows: a
 * function that has begun with a block goes through it to its end. So where a function costs more than its
 * arguments are long, the arguments are bounded, and the blocks are small.
 */
import { denied } from '../http/query-errors.ts'
import { ANALYST_PROFILE } from '../engine/profiles.ts'
import type { BoundKind } from './allow-list.ts'
import { type CanonicalToken, writeTokens } from './canonical-query.ts'
import { argumentsOf, findClose } from './named-by-string.ts'

/** Rows in a block of such a query: with the bounds below, a block takes about a second of one core at the worst. */
const BLOCK_ROWS: Readonly<Record<BoundKind, number>> = {
  texts: 32, arrays: 256, patterns: 64, steps: 32, series: 32, first: 32, second: 32, range: 256, blocks: 32
}

/** When a number says how much a function makes, a block has rows for about so many elements. */
const BLOCK_ELEMENTS = 250_000
/** A range that is computed, but of no column, may be as long as the engine lets it be in a block. */
const COMPUTED_RANGE_ROWS = 1
/** Arrays within arrays multiply; those side by side do not, so blocks do not become smaller than this for it. */
const NESTED_ROWS = 16

interface Bound {
  /** Arguments whose sizes are multiplied. */
  from: number
  to: number
  /** Expression for the size of one, `@`. */
  size: string
  /** Maximum product: some 10 ms of the slowest of these functions. */
  most: number
  /** Keeps an argument as it is, but is computed after the check. */
  keep: 'substring' | 'arraySlice'
  what: string
  /** Elements of an array are rows that no block limits. */
  inLambda: boolean
}

/** What makes much out of little, and the arguments that say how much. */
const COUNTS = { first: [0, 1], second: [1, 2], range: [0, 3], blocks: [0, 0] } as const
type MakingKind = keyof typeof COUNTS

const BOUNDS: Readonly<Record<Exclude<BoundKind, MakingKind>, Bound>> = {
  texts: { from: 0, to: 2, size: 'length(@)', most: 1_000_000, keep: 'substring', what: 'product of the lengths of its texts, in bytes,', inLambda: false },
  arrays: { from: 0, to: 2, size: 'length(@)', most: 1_000_000, keep: 'arraySlice', what: 'product of the lengths of its arrays', inLambda: true },
  patterns: { from: 0, to: 1, size: 'length(@)', most: 16_384, keep: 'substring', what: 'length of its text, in bytes,', inLambda: true },
  steps: { from: 1, to: 2, size: 'length(@)', most: 10_000, keep: 'arraySlice', what: 'length of its array', inLambda: false },
  series: { from: 0, to: 1, size: 'length(@)', most: 100_000, keep: 'arraySlice', what: 'length of its series', inLambda: false }
}

/** What is written into a query, by the token beside it. */
interface Insertions {
  before: Map<CanonicalToken, CanonicalToken>
  after: Map<CanonicalToken, CanonicalToken>
}

/** More than any text or array has. */
const ALL = 1_000_000_000

/**
 * Writes the bounds into a query: the first bounded argument of each call is checked before the call is computed.
 *
 * @returns the tokens that run; settings to run them with, none for a query without such functions.
 * @throws {QueryError} 497 for a use that cannot be bounded.
 */
export function boundCosts (
  tokens: readonly CanonicalToken[], kinds: ReadonlyMap<string, BoundKind>
): { tokens: CanonicalToken[], settings: ReadonlyArray<[string, string]> } {
  const { before, after }: Insertions = { before: new Map(), after: new Map() }
  const places = readPlaces(tokens)
  let rows = Infinity
  let elements = 1
  tokens.forEach((token, i) => {
    const kind = token.kind === 'word' || token.kind === 'quoted' ? kinds.get(token.text.toLowerCase()) : undefined
    if (kind === undefined || tokens[i - 1]?.text === '.' || tokens[i - 1]?.text === 'AS') return
    const made = isMaking(kind) ? countElements(tokens, i, kind) : undefined
    if (kind === 'first' || kind === 'range') elements *= made ?? 1
    const alone = made === undefined ? BLOCK_ROWS[kind] : Math.max(1, BLOCK_ELEMENTS / made)
    rows = Math.floor(Math.min(rows, alone, Math.max(NESTED_ROWS, BLOCK_ELEMENTS / elements)))
    if (isMaking(kind)) return
    const bound = BOUNDS[kind]
    if (tokens[i + 1]?.text !== '(') throw denied(`function ${token.text} without its arguments`)
    const place = places[i]
    if (!bound.inLambda && place?.isInLambda === true) throw denied(`function ${token.text} in a lambda`)
    const checked = argumentsOf(tokens, i + 1).slice(bound.from, bound.to).filter((argument) => argument.length > 0)
    for (const part of checked.flat()) {
      const isNested = part.kind === 'word' && (part.text === 'SELECT' || !isMaking(kinds.get(part.text.toLowerCase()) ?? 'blocks'))
      if (isNested) throw denied(`${part.text} within an argument of ${token.text}`)
    }
    const [first, last] = [checked[0]?.[0], checked[0]?.at(-1)]
    if (first === undefined || last === undefined) return
    const product = checked.map((argument) => bound.size.replace('@', () => writeTokens(argument))).join(' * ')
    const message = `${token.text}: the ${bound.what} is above ${bound.most}`
    const [start, end] = [first.start, last.end]
    before.set(first, { kind: 'symbol', text: `${bound.keep}(`, start, end: start })
    after.set(last, { kind: 'symbol', text: `, 1, ${ALL} + throwIf(ifNull(${product}, 0) > ${bound.most}, '${message}'))`, start: end, end })
    if (place?.isInLambda === false && NAMING.has(place.clause)) nameColumn(tokens, i, { before, after })
  })
  if (rows >= Number(ANALYST_PROFILE.max_block_size)) return { tokens: [...tokens], settings: [] }
  const written = tokens.flatMap((token) => [before.get(token) ?? [], token, after.get(token) ?? []].flat())
  return {
    tokens: written,
    settings: [
      ['max_block_size', String(rows)], ['max_joined_block_size_rows', String(rows)],
      ['min_joined_block_size_rows', '0'], ['min_joined_block_size_bytes', '0']
    ]
  }
}

function isMaking (kind: BoundKind): kind is MakingKind {
  return kind in COUNTS
}

/** How many elements a call makes; undefined when that depends on columns. */
function countElements (tokens: readonly CanonicalToken[], i: number, kind: MakingKind): number | undefined {
  if (tokens[i + 1]?.text !== '(') return undefined
  const counts = argumentsOf(tokens, i + 1).slice(...COUNTS[kind])
  const numbers = counts.flatMap(([count, ...rest]) => count?.kind === 'number' && rest.length === 0 ? Number(count.text) : [])
  if (counts.length > 0 && numbers.length === counts.length) return Math.max(1, ...numbers)
  const isOfColumn = counts.flat().some((token, k, all) => ['word', 'quoted'].includes(token.kind) && all[k + 1]?.text !== '(')
  return kind === 'range' && !isOfColumn ? BLOCK_ELEMENTS / COMPUTED_RANGE_ROWS : undefined
}

/** Columns are called as the query has it, and not by what is written into it. */
function nameColumn (tokens: readonly CanonicalToken[], i: number, { before, after }: Insertions): void {
  const close = findClose(tokens, i + 1)
  const [opening, closing] = [tokens[i], tokens[close]]
  if (opening === undefined || closing === undefined) return
  const name = writeTokens(tokens.slice(i, close + 1)).replaceAll(/[`\\]/g, '\\$&')
  const [{ start }, { end }] = [opening, closing]
  before.set(opening, { kind: 'symbol', text: '(', start, end: start })
  after.set(closing, { kind: 'symbol', text: ` AS \`${name}\`)`, start: end, end })
}

const CLAUSES = new Set(('SELECT DISTINCT WITH FROM ON WHERE PREWHERE BY HAVING QUALIFY WINDOW LIMIT INTERPOLATE ' +
  'FILTER OVER').split(' '))
const NAMING = new Set<string | undefined>(['SELECT', 'DISTINCT'])

interface Place {
  /** Computed for each element of an array. */
  isInLambda: boolean
  /** The word of the clause, of this bracket or of the nearest around it. */
  clause: string | undefined
}

/** Where each token stands, in one pass: a query may have some 100,000. */
function readPlaces (tokens: readonly CanonicalToken[]): Place[] {
  const around: Place[] = []
  let place: Place = { isInLambda: false, clause: undefined }
  return tokens.map(({ kind, text }, i) => {
    const own = place
    if (kind === 'word' && CLAUSES.has(text)) place = { ...place, clause: text }
    if (kind !== 'symbol') return own
    if ('([{'.includes(text)) around.push(place)
    else if (')]}'.includes(text)) place = around.pop() ?? place
    else if (text === ',') place = { ...place, isInLambda: around.at(-1)?.isInLambda ?? false }
    else if (text === '>' && tokens[i - 1]?.text === '-') place = { ...place, isInLambda: true }
    return own
  })
}
