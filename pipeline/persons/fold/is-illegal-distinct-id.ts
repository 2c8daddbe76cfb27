/** What clients send when they have no id at all: merging by one would make strangers one person. */
const ILLEGAL_IN_ANY_CASE = new Set([
  'anonymous', 'guest', 'distinctid', 'distinct_id', 'id', 'not_authenticated', 'email', 'undefined', 'true', 'false'
])

const ILLEGAL = new Set(['[object Object]', 'NaN', 'None', 'none', 'null', '0', 'undefined'])

/** Whether a distinct id must never be part of a merge; the same in quotes, and blanks. */
export function isIllegalDistinctId (distinctId: string): boolean {
  const bare = unquote(distinctId.trim())
  return bare.trim() === '' || ILLEGAL.has(bare) || ILLEGAL_IN_ANY_CASE.has(bare.toLowerCase())
}

function unquote (text: string): string {
  const quote = text.charAt(0)
  return (quote === '"' || quote === "'") && text.length > 1 && text.endsWith(quote) ? text.slice(1, -1) : text
}
