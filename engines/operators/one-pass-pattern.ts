/**
 * Patterns such as `^sku-[0-9]{1,6}$`, which are most of those that schemas have: from left to right, each part takes
 * all characters that it can, and what it takes no other part could. One pass over the text decides, in a tenth of
 * the time that the engine takes for any pattern (docs/benchmarks.md).
 */

/** Numbers of a part in the list of parts: how often at least and at most, and a bit for each ASCII character. */
const PART_SIZE = 6
const BITS = 2

/** Repeats without a limit; no text is as long. */
const UNLIMITED = 2 ** 30

const CHARACTER = /([\w \-/:,;=@#%'])/
const ESCAPED = /\\([dw!-/:-@[-^`{-~])/
const CLASS = /\[((?:[\w .+*?()|/:,;=@#%'$-]|\\[dw!-/:-@[-^`{-~])+)\]/
const REPEATS = /(?:([?*+])|\{(\d{1,4})(,(\d{1,4})?)?\})?/
const PART = new RegExp(`(?:${CHARACTER.source}|${ESCAPED.source}|${CLASS.source})${REPEATS.source}`, 'y')

/** A range, an escaped character, or one character of a class. */
const CLASS_ITEM = /([0-9A-Za-z])-([0-9A-Za-z])|\\(.)|(.)/g

const DIGITS = charactersOf('0123456789')
const OF_WORDS = charactersOf('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz')

interface Part {
  characters: Set<number>
  least: number
  most: number
}

/**
 * @param pattern  One that the engine takes.
 * @returns a test that says of each text what the engine says; null when the pattern needs the engine.
 */
export function compileOnePass (pattern: string): ((text: string) => boolean) | null {
  const read = readParts(pattern)
  if (read === null || !isReadOneWay(read.parts)) return null
  const { isWhole } = read
  const parts = Int32Array.from(read.parts.flatMap(({ characters, least, most }) =>
    [least, most, ...bitsOf(characters)]))

  return function matchesInOnePass (text) {
    let at = 0
    for (let part = 0; part < parts.length; part += PART_SIZE) {
      const start = at
      const end = Math.min(text.length, start + (parts[part + 1] as number))
      while (at < end) {
        const code = text.charCodeAt(at)
        if (code > 127 || ((parts[part + BITS + (code >> 5)] as number) >>> (code & 31) & 1) === 0) break
        at++
      }
      if (at - start < (parts[part] as number)) return false
    }
    return !isWhole || at === text.length
  }
}

/** Null for a pattern with anything else in it. */
function readParts (pattern: string): { parts: Part[], isWhole: boolean } | null {
  const isWhole = /(?<!\\)(?:\\\\)*\$$/.test(pattern)
  const end = isWhole ? pattern.length - 1 : pattern.length
  if (!pattern.startsWith('^')) return null
  const parts: Part[] = []
  for (let at = 1; at < end; at = PART.lastIndex) {
    PART.lastIndex = at
    const found = PART.exec(pattern)
    if (found === null || PART.lastIndex > end) return null
    const [, character, escaped, ofClass, sign, count, comma, limit] = found
    const characters = character !== undefined
      ? charactersOf(character)
      : escaped !== undefined ? charactersOfEscape(escaped) : charactersOfClass(ofClass as string)
    const { least, most } = repeatsOf(sign, count, comma, limit)
    // Of two repeats, the second one may mean something else.
    const isRepeatedTwice = /[?*+{]/.test(pattern[PART.lastIndex] ?? '')
    if (characters === null || least > most || isRepeatedTwice) return null
    parts.push({ characters, least, most })
  }
  return { parts, isWhole }
}

function repeatsOf (
  sign: string | undefined, count: string | undefined, comma: string | undefined, limit: string | undefined
): { least: number, most: number } {
  if (sign !== undefined) return { least: sign === '+' ? 1 : 0, most: sign === '?' ? 1 : UNLIMITED }
  if (count === undefined) return { least: 1, most: 1 }
  const least = Number(count)
  return { least, most: limit !== undefined ? Number(limit) : comma !== undefined ? UNLIMITED : least }
}

/** Null for a range whose end comes before its beginning, and for a hyphen that might be one of a range. */
function charactersOfClass (text: string): Set<number> | null {
  const characters = new Set<number>()
  for (const { 0: item, 1: first, 2: last, 3: escaped, 4: single, index } of text.matchAll(CLASS_ITEM)) {
    if (first !== undefined && last !== undefined) {
      if (first > last) return null
      for (let code = first.charCodeAt(0); code <= last.charCodeAt(0); code++) characters.add(code)
    } else if (escaped !== undefined) {
      for (const code of charactersOfEscape(escaped)) characters.add(code)
    } else {
      if (single === '-' && index !== 0 && index + item.length !== text.length) return null
      characters.add((single as string).charCodeAt(0))
    }
  }
  return characters
}

function charactersOfEscape (escaped: string): Set<number> {
  return escaped === 'd' ? DIGITS : escaped === 'w' ? OF_WORDS : charactersOf(escaped)
}

function charactersOf (text: string): Set<number> {
  return new Set(Array.from(text, (character) => character.charCodeAt(0)))
}

/**
 * Whether a part that may take fewer characters than it could would leave one that no part after it takes: then taking
 * all of them is the only way.
 */
function isReadOneWay (parts: readonly Part[]): boolean {
  return parts.every(({ characters, least, most }, index) => {
    if (least === most) return true
    for (const next of parts.slice(index + 1)) {
      if ([...next.characters].some((code) => characters.has(code))) return false
      if (next.least > 0) return true
    }
    return true
  })
}

function bitsOf (characters: ReadonlySet<number>): number[] {
  const bits = [0, 0, 0, 0]
  for (const code of characters) bits[code >> 5]! |= 1 << (code & 31)
  return bits
}
