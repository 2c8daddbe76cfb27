import { BlockList, isIP } from 'node:net'
import { type Place, RULE_LIMITS } from './rule-definition.ts'

/** Tells whether an address is in one of some ranges; text that is no address is in none. */
export type IsInRange = (address: string) => boolean

/**
 * Compiles ranges such as `10.0.0.0/8`, `2001:db8::/32` or a single address; one, or a list of them.
 *
 * @throws {DefinitionError} naming the invalid range.
 */
export function compileAddressRange (place: Place): IsInRange {
  const ranges = new BlockList()
  for (const each of Array.isArray(place.value) ? place.entries(RULE_LIMITS.values) : [place]) addRange(ranges, each)
  // The events of a request have one address, mostly.
  let last = ''
  let isIn = false
  return (address) => {
    if (address === last) return isIn
    const family = isIP(address)
    isIn = family !== 0 && ranges.check(address, family === 4 ? 'ipv4' : 'ipv6')
    last = address
    return isIn
  }
}

function addRange (ranges: BlockList, place: Place): void {
  const text = typeof place.value === 'string' ? place.value : ''
  const [, address = '', bits] = /^([\da-f.:]+)(?:\/(\d{1,3}))?$/i.exec(text) ?? []
  const family = isIP(address)
  const most = family === 4 ? 32 : 128
  if (family === 0 || Number(bits ?? most) > most) throw place.error('Expected an address or a range such as 192.0.2.0/24 or 2001:db8::/32.')
  ranges.addSubnet(address, Number(bits ?? most), family === 4 ? 'ipv4' : 'ipv6')
}

/**
 * The address without its host part: the first 24 bits of IPv4, 48 of IPv6, which is about a network; empty
 * for an invalid address. An IPv4 address that is written as one of IPv6 (`::ffff:192.0.2.7`) is the one of IPv4, as
 * ranges see it.
 */
export function truncateAddress (address: string): string {
  const family = isIP(address)
  if (family === 0) return ''
  if (family === 4) return `${address.slice(0, address.lastIndexOf('.'))}.0`
  // The parser of addresses of URLs writes the groups out, but for one run of zeros.
  const text = new URL(`http://[${address.replace(/%.*$/, '')}]`).hostname.slice(1, -1)
  const mapped = /^::ffff:([\da-f]+):([\da-f]+)$/.exec(text)
  if (mapped !== null) {
    const [high, low] = mapped.slice(1).map((group) => parseInt(group, 16)) as [number, number]
    return `${high >> 8}.${high & 255}.${low >> 8}.0`
  }
  const [before = '', after] = text.split('::')
  const head = before === '' ? [] : before.split(':')
  const tail = after === undefined || after === '' ? [] : after.split(':')
  const groups = after === undefined ? head : [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail]
  return new URL(`http://[${groups.slice(0, 3).join(':')}::]`).hostname.slice(1, -1)
}
