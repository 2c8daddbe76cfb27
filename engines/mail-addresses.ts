/** Addresses of mail in any text, which those who do not see persons neither read nor compare. */
const CHARACTER = '[^\\s@<>"\',;:()[\\]{}/|=&?]'
/** Of a name, from the second on: that of an O'Brien. */
const NAME = '[^\\s@<>",;:()[\\]{}/|=&?]'
/** Before the sign, the end of a name in quotes, or of alternatives in a pattern. */
const CLOSED = '[^\\s@"\',:]'
const HOST = '[^\\s@<>"\',;:{}/=&?]'
const LABEL = '[^\\s@<>"\',;:()[\\]{}/|=&?.]'

/** In addresses of pages the sign is escaped, perhaps more than once; in JSON, any character may be. */
const address = (...[name, escapes, host, label]: readonly string[]): string =>
  `(?:${CHARACTER}${NAME}${name}|${CLOSED}${name}[)\\]}"])(?:@|\\\\u0040|%(?:25)${escapes}40)${HOST}${host}(?:\\.|\\\\u002[eE])[(\\]]?${LABEL}${label}`

/** As strict as it must be to find one in any text, and not more. For ClickHouse and Postgres. */
export const ADDRESS_PATTERN = address('*', '*', '+', '+')

/**
 * The lengths are those of RFC 5321: without them, this machine would take time by the square of the length of a text
 * without any address.
 */
const ADDRESS = new RegExp(address('{0,63}', '{0,3}', '{1,255}', '{1,63}'), 'g')

export const ADDRESS_MASK = '***@***'

/** Most texts lack the sign, and cost only this test. */
const SIGN = /@|0040|%(?:25)*40/

export function maskAddresses (text: string): string {
  return SIGN.test(text) ? text.replaceAll(ADDRESS, ADDRESS_MASK) : text
}
