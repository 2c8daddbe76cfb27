import { BlockList, isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
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
  if (isIP(address) === 0) return ''
  const parsed = ipaddr.process(address.replace(/%.*$/, ''))
  return parsed instanceof ipaddr.IPv6
    ? new ipaddr.IPv6([...parsed.parts.slice(0, 3), 0, 0, 0, 0, 0]).toString()
    : new ipaddr.IPv4([...parsed.octets.slice(0, 3), 0]).toString()
}
