/** Addresses of mail in any text, which those who do not see persons neither read nor compare. */
const CHARACTER = '[^\\s@<>"\',;:()[\\]{}/|=&?]'
const LABEL = '[^\\s@<>"\',;:()[\\]{}/|=&?.]'

/** In addresses of pages the sign is escaped, perhaps more than once. */
const address = (...[name, escapes, host, label]: readonly string[]): string =>
  `${CHARACTER}${name}(?:@|\\\\u0040|%(?:25)${escapes}40)${CHARACTER}${host}\\.${LABEL}${label}`

/** As strict as it must be to find one in any text, and not more. For ClickHouse and Postgres. */
export const ADDRESS_PATTERN = address('+', '*', '+', '+')

/**
 * The lengths are those of RFC 5321: without them, this machine would take time by the square of the length of a text
 * without any address.
 */
const ADDRESS = new RegExp(address('{1,64}', '{0,3}', '{1,255}', '{1,63}'), 'g')

export const ADDRESS_MASK = '***@***'

export function maskAddresses (text: string): string {
  return text.replaceAll(ADDRESS, ADDRESS_MASK)
}
