import { isExactNumber } from '../../engines/body/parse-json.ts'
import type { PROPERTY_TYPE_CODES } from '../../schema/wire/event-row.ts'

export type PropertyType = keyof typeof PROPERTY_TYPE_CODES

/** What the name of a property alone says about its type: always text, perhaps a time, or nothing. */
export type NameRule = 'text' | 'time' | 'any'

const TEXT_NAME = /^(?:utm_|\$initial_utm_|\$feature\/|\$survey_response)|^\$feature_flag_response$/
const TIME_NAME = /time|date|timestamp|_at|-at|createdat|updatedat/

/** Rules 1 to 5 of docs/reference/contract/sdks.md 3.2, as far as the name decides. */
export function nameRuleOf (name: string): NameRule {
  if (TEXT_NAME.test(name)) return 'text'
  return TIME_NAME.test(name.toLowerCase()) ? 'time' : 'any'
}

/** Half a year: an integer of a time-like name that is not older counts as unix time, in seconds or finer. */
const RECENT_SECONDS = 15_768_000

/**
 * Infers the type of a property value (docs/reference/contract/sdks.md 3.2). A numeric text is String; null, arrays and
 * objects have none.
 */
export function inferType (rule: NameRule, value: unknown, now: () => number): PropertyType {
  switch (typeof value) {
    case 'string':
      if (rule === 'text') return 'String'
      return isBooleanText(value) ? 'Boolean' : isDateText(value) ? 'DateTime' : 'String'
    case 'number':
      if (rule === 'text') return 'String'
      return rule === 'time' && Number.isInteger(value) && value >= now() / 1000 - RECENT_SECONDS ? 'DateTime' : 'Numeric'
    case 'boolean':
      return rule === 'text' ? 'String' : 'Boolean'
    default:
      if (isExactNumber(value)) return inferType(rule, Number(value.rawJSON), now)
      return rule === 'text' ? 'String' : 'none'
  }
}

function isBooleanText (text: string): boolean {
  const length = text.length
  // Cheap refusal of nearly every text: too short, too long, or beginning otherwise.
  if (length < 4 || length > 32) return false
  const first = text.charCodeAt(0)
  if (first !== 0x74 && first !== 0x66 && first !== 0x54 && first !== 0x46 && first > 0x20) return false
  const trimmed = text.trim()
  return trimmed === 'true' || trimmed === 'false' || trimmed === 'TRUE' || trimmed === 'FALSE'
}

const TIME = '(?:[T ]\\d{1,2}:\\d{2}(?::\\d{2}(?:[.,]\\d+)?)?\\s*(?:Z|[+-]\\d{2}:?(?:\\d{2})?)?)?'
const DATE = new RegExp(`^(?:\\d{4}-\\d{2}-\\d{2}|\\d{4}/\\d{2}/\\d{2}|\\d{2}-\\d{2}-\\d{4})${TIME}$`, 'i')
const RFC_2822 = /^(?:[a-z]{3}, )?\d{1,2} [a-z]{3} \d{4} \d{2}:\d{2}(?::\d{2})?(?: (?:[+-]\d{4}|[a-z]{1,3}))?$/i

/** YYYY-MM-DD, YYYY/MM/DD or DD-MM-YYYY, optionally with a time and zone; or RFC 2822. */
export function isDateText (text: string): boolean {
  if (text.length < 10 || text.length > 40) return false
  const first = text.charCodeAt(0)
  const isDigit = first >= 0x30 && first <= 0x39
  if (!isDigit) return text.charCodeAt(3) === 0x2c && RFC_2822.test(text)
  const fifth = text.charCodeAt(4)
  const third = text.charCodeAt(2)
  if (fifth === 0x2d || fifth === 0x2f || third === 0x2d) return DATE.test(text)
  return (third === 0x20 || text.charCodeAt(1) === 0x20) && RFC_2822.test(text)
}
