/** Compiles regular expressions of users, and says what to write instead of what the engine does not support. */
import { RE2JS, RE2JSSyntaxException } from 're2js'

const UNICODE = 'Take a category or a script, as in \\p{L}, \\p{Lu}, \\p{Greek}.'

/**
 * What other engines have and RE2 does not, which takes time linear in the text: how it begins, its name, and what to
 * write instead.
 */
const CONSTRUCTS: readonly (readonly [begins: RegExp, name: string, instead: string])[] = [
  [/^\(\?=/, 'a look-ahead', 'Match what follows as part of the pattern, or add a second condition.'],
  [/^\(\?!/, 'a negative look-ahead', 'Add a second condition that excludes it: not_regex, or "not" in a schema.'],
  [/^\(\?<=/, 'a look-behind', 'Match what comes before as part of the pattern, or add a second condition.'],
  [/^\(\?<!/, 'a negative look-behind', 'Add a second condition that excludes it: not_regex, or "not" in a schema.'],
  [/^\(\?>/, 'an atomic group', 'RE2 never backtracks: write (?:...), and where it decides, say what follows: a+(?:[^a]|$).'],
  [/^\(\?\(/, 'a conditional', 'Write both cases as alternatives: (?:if|else).'],
  [/^\(\?(?:R|P>|&|[+-]?\d)/, 'a recursion', 'Write the group out, as many levels deep as needed.'],
  [/^(?:\(\?P=|\\k|\\g|\\[1-9])/, 'a back-reference', 'Write the possible texts out: (?:aa|bb) for (a|b)\\1.'],
  [/^\(\?#/, 'a comment', 'Leave it out.'],
  [/^\(\?\|/, 'a branch reset', 'Write (?:...).'],
  [/^\(\?'/, 'a quoted group name', 'Write (?<name>...).'],
  [/^\(\?P?<\w*[^\w>]/, 'a group name that is not of letters, digits and _', 'Write (?<name>...).'],
  [/^\(\?[imsU-]*[^imsU:)<P-]/, 'a flag other than i, m, s and U', 'Leave it out; of (?x) the blanks and comments, too.'],
  [/^(?:[*+?]|\{[\d,]+\})\+/, 'a possessive quantifier', 'RE2 never backtracks: leave out its +, and where it decides, say what follows: a+(?:[^a]|$).'],
  [/^(?:[*+?]|\{[\d,]+\})[*?{]/, 'a quantifier of a quantifier', 'Put the inner one in a group: (?:a{2}){3}.'],
  [/^\{/, 'a number of repetitions that is too large, or out of order', 'Repeat at most 1000 times in all.'],
  [/^\\Z/, '\\Z', 'Write \\z, or $.'],
  [/^\\[GK]/, 'a position of the search', 'Leave it out: a pattern is searched for once, anywhere in the text.'],
  [/^\\h/i, 'a class of blanks', 'Write [ \\t], or [^ \\t].'],
  [/^\\R/, 'the end of any line', 'Write (?:\\r\\n|\\n|\\r).'],
  [/^\\[NX]/, 'a class of characters', 'Write a dot, or [^\\n].'],
  [/^\\[uco]/, 'a code of a character', 'Write it in hexadecimal: \\x41, \\x{1f600}.'],
  [/^\\p/i, 'a Unicode property', UNICODE],
  [/^\\./, 'an escape', 'Escape punctuation only; \\d, \\w, \\s and \\b are classes.']
]

/** Compiles a pattern; returns why it cannot be, for the person who wrote it. */
export function compileRe2 (pattern: string): RE2JS | string {
  try {
    return RE2JS.compile(pattern)
  } catch (error) {
    if (!(error instanceof RE2JSSyntaxException)) return 'The regular expression is not valid.'
    return explain(pattern, error.error, error.input ?? pattern)
  }
}

/** @param fragment  What the engine stopped at; the whole pattern if it is nothing in particular. */
function explain (pattern: string, description: string, fragment: string): string {
  const places = placesOf(pattern, fragment)
  for (const at of places) {
    const rest = pattern.slice(at)
    const [, name, instead] = CONSTRUCTS.find(([begins]) => begins.test(rest)) ?? []
    if (name === undefined) continue
    return `The regular expression has ${name} at character ${at + 1}, which RE2, the engine that runs it, does not support. ${instead}`
  }
  const place = fragment === pattern || places[0] === undefined ? '' : ` at character ${places[0] + 1}, ${fragment.slice(0, 20)}`
  return `The regular expression is not valid${place}: ${description}.`
}

/** Positions of a fragment. In a class only escapes count, and escaped characters are literal. */
function placesOf (pattern: string, fragment: string): number[] {
  const places: number[] = []
  let inClass = false
  for (const { index, 0: token } of pattern.matchAll(/\\Q[^]*?(?:\\E|$)|\\[^]|\[\^?\]?|[^]/g)) {
    if (pattern.startsWith(fragment, index) && (!inClass || token.startsWith('\\'))) places.push(index)
    if (token.startsWith('[')) inClass = true
    else if (token === ']') inClass = false
  }
  return places
}

/** Categories of Unicode; scripts are those of JavaScript. */
const CATEGORY = /^(?:C[cfos]?|L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?|Any)$/

/** What this engine takes, and that of ClickHouse does not; null: nothing. */
export function findSqlGap (pattern: string): string | null {
  for (const { index, 1: name } of pattern.matchAll(/\\(?:p\{\^?(\w+)\}|[^])/gi)) {
    if (name === undefined || CATEGORY.test(name) || isScript(name)) continue
    return `Queries do not know the Unicode property at character ${index + 1}. ${UNICODE}`
  }
  return null
}

function isScript (name: string): boolean {
  try {
    return new RegExp(`\\p{Script=${name}}`, 'u').unicode
  } catch {
    return false
  }
}
