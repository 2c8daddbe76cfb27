/** What a pattern costs the engine of regular expressions before it compiles it: meanwhile, nobody else is served. */

/** Each pattern, and each class of Unicode such as `\p{L}`, costs as much as some instructions. */
const COST_OF_PATTERN = 50
const COST_OF_UNICODE_CLASS = 50

/** Characters of a range whose other case the engine looks for, one by one, in the time of an instruction. */
const FOLDED_CHARACTERS = 20

/** No character beyond has another case. */
const LAST_WITH_CASE = 0x1_e943

/** What compiling a pattern costs, in instructions: about a microsecond each. */
export function patternCost (pattern: string): number {
  const classes = pattern.match(/\\p/gi)?.length ?? 0
  return patternSize(pattern) + COST_OF_PATTERN + COST_OF_UNICODE_CLASS * classes + foldingCost(pattern)
}

/** About how many instructions a pattern has: its atoms, times the repetitions around them. */
export function patternSize (pattern: string): number {
  const outer: number[] = []
  let size = 0
  let atom = 0
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern[at] as string
    if (char === '(') {
      outer.push(size)
      size = atom = 0
    } else if (char === ')') {
      atom = size + 2
      size = (outer.pop() ?? 0) + atom
    } else if (char === '{') {
      const [counted, least = '', most = ''] = /^\{(\d{1,6})(?:,(\d{0,6}))?\}/.exec(pattern.slice(at)) ?? []
      if (counted === undefined) continue
      size += atom * (Math.max(Number(least), Number(most), 1) - 1)
      at += counted.length - 1
    } else {
      if (char === '\\') at++
      else if (char === '[') at = endOfClass(pattern, at)
      atom = 2
      size += atom
    }
  }
  return size
}

function endOfClass (pattern: string, start: number): number {
  for (let at = start + 2; at < pattern.length; at++) {
    if (pattern[at] === '\\') at++
    else if (pattern[at] === ']') return at
  }
  return pattern.length
}

/**
 * Where case is ignored, the engine takes each character of a range in turn, for some milliseconds from one end of
 * Unicode to the other. Whatever follows a hyphen is taken for the end of a range, and its beginning for the first
 * character: ranges of ASCII cost next to nothing by that, too.
 */
function foldingCost (pattern: string): number {
  if (!/\(\?[a-z]*i/i.test(pattern)) return 0
  let characters = 0
  for (const [, hex, digits, literal] of pattern.matchAll(/-(?=\\x\{([\da-f]*)\}|\\x([\da-f]{2})|([^\\]))/giu)) {
    const last = literal === undefined ? Number.parseInt(hex ?? digits ?? '', 16) : literal.codePointAt(0)!
    characters += Math.min(last, LAST_WITH_CASE) || 0
  }
  return Math.ceil(characters / FOLDED_CHARACTERS)
}
