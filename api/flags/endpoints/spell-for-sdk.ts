/**
 * Filters as SDKs have to read them so that they decide what the server decides, or ask it. An SDK that misses a
 * property cannot tell, and asks: filters that it would read otherwise are put together from those that it reads alike,
 * as cohorts that only the definitions have, and from a property that nobody has.
 */
import { spellDateForSdk } from '../../../engines/operators/match-date.ts'
import { findOperator } from '../../../engines/operators/property-operators.ts'
import { propertyText } from '../../../engines/operators/property-test.ts'

export type Json = Record<string, unknown>

export type Spelling = ReturnType<typeof createSpelling>

/** Cannot be evaluated by an SDK. */
const ASK_SERVER: Json = { key: '$decided_by_the_server', type: 'person', operator: 'is_set', value: 'is_set' }

/** Operators that SDKs do not know. Of null they say false to these. Of a list they make one text for the others. */
const OF_SERVER = ['icontains_multi', 'not_icontains_multi', 'between', 'not_between', 'is_date_exact']

/**
 * What the server takes for a number, as texts and as JavaScript writes numbers up to the largest. Other texts SDKs
 * compare as texts, or by the digits that they begin with.
 */
const NUMBER = '^[+-]?(?:\\d+(?:\\.\\d*)?|\\.\\d+)(?:[eE](?:\\+?0*[12]?\\d?\\d|-\\d+))?$' +
  '|^-?\\d(?:\\.\\d+)?e\\+30[0-7]$|^-?1(?:\\.[0-7]\\d*)?e\\+308$'

/** Days that every calendar has, so without 29 February. */
const DAY = '[12]\\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|' +
  '(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))'
const INSTANT = `${DAY}T(?:[01]\\d|2[0-3]):[0-5]\\d(?::[0-5]\\d(?:\\.\\d+)?)?(?:Z|[+-](?:0\\d|1[0-4]):[0-5]\\d)`

const allOf = (values: readonly Json[]): Json => ({ type: 'AND', values })
const anyOf = (values: readonly Json[]): Json => ({ type: 'OR', values })

/** Spells the filters of a project with this time zone; `cohorts` grows by what they refer to. */
export function createSpelling (timezone: string) {
  const cohorts: Record<string, Json> = {}
  const ids = new Map<string, number>()

  /** A filter that is a group of filters. Ids of real cohorts begin at 1. */
  function refer (group: Json): Json {
    const text = JSON.stringify(group)
    const value = ids.get(text) ?? -1 - ids.size
    ids.set(text, value)
    cohorts[value] = group
    return { key: 'id', type: 'cohort', operator: 'in', value }
  }

  /** The filters that must hold instead of one, which is not negated. */
  function spell (filter: Json): Json[] {
    const { operator = 'exact', value, type } = filter
    if (type === 'cohort' || type === 'flag' || typeof operator !== 'string') return [filter]
    const with_ = (operator: string, value: unknown): Json => ({ ...filter, operator, value })
    // As a group, because a failing filter decides even beside one that cannot be evaluated.
    const onlyIf = (condition: Json, asked: Json): Json[] => [refer(anyOf([
      allOf([condition, asked]), allOf([{ ...condition, negation: true }, ASK_SERVER])
    ]))]
    const isOnText = /contains$|_with$|regex$/.test(operator)
    const isOfServer = OF_SERVER.includes(operator) || (isOnText && Array.isArray(value))
    if (isOfServer || !isValid(operator, value, timezone)) return [ASK_SERVER]
    if (/^[gl]te?$/.test(operator)) return [with_('regex', NUMBER), filter]
    if (operator.startsWith('is_date')) {
      const date = spellDateForSdk(String(value), timezone)
      if (date === null) return [ASK_SERVER]
      const days = spellDateForSdk('-1d', timezone) === null ? '' : `|^${DAY}$`
      return onlyIf(with_('regex', `^${INSTANT}$${days}`), with_(operator, date))
    }
    if (operator.endsWith('regex')) {
      // A vertical tab is a blank to JavaScript only.
      const asked = with_(operator, propertyText(value))
      return /\\s/i.test(propertyText(value)) ? onlyIf(with_('not_regex', '\\v'), asked) : [asked]
    }
    return [isOnText ? with_(operator, propertyText(value)) : filter]
  }

  /** One filter for another one, which may be negated. */
  function spellOne ({ negation, ...filter }: Json): Json {
    const [first = filter, ...more] = spell(filter)
    const one = more.length === 0 ? first : refer(allOf([first, ...more]))
    return negation === true ? { ...one, negation } : one
  }

  /** True, unless one of the filters cannot be evaluated; then undecided. */
  function allTold (filters: readonly Json[]): Json {
    const isTold = (filter: Json): Json => anyOf([{ ...filter, negation: false }, { ...filter, negation: true }])
    return refer(allOf(filters.map(isTold)))
  }

  return { cohorts, spell, spellOne, allTold }
}

function isValid (operator: string, value: unknown, timezone: string): boolean {
  let isValid = true
  findOperator(operator)?.(value, { timezone, invalid: () => { isValid = false } })
  return isValid
}
