/**
 * Connections to addresses that a stranger may name. The address is checked when it is dialled, not when the name is
 * stored: a name may resolve to another one the next time. Connections are not kept, so every attempt dials.
 */
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { Agent, buildConnector } from 'undici'
import { MillraceError } from '../../../engines/errors.ts'
import { createResolve, lookupBy, type Resolve } from '../resolve-name.ts'

export interface GuardOptions {
  /** Addresses and ranges that are allowed although they are not public, comma separated. */
  allowed: string
  /** Default: like the machine, where not only public addresses are allowed. */
  resolve?: Resolve
  connectTimeoutMs: number
}

const refused = (address: string, range: string): MillraceError =>
  new MillraceError('MILLRACE_ADDRESS_REFUSED', `${address} is a ${range} address, which targets may not have unless MILLRACE_TARGET_ADDRESSES allows it`)

/** Has a public address, and answers machines of Azure with their metadata. */
const METADATA = new Set(['168.63.129.16'])

/** Where all public addresses of IPv6 are: `::7f00:1` is in no range. */
const PUBLIC_IPV6 = ipaddr.parseCIDR('2000::/3')

/** The ranges that settings of addresses may name (`proxy-addr`), by their names here. */
const NAMED: Record<string, readonly string[]> = {
  loopback: ['loopback'], linklocal: ['linkLocal'], uniquelocal: ['private', 'uniqueLocal']
}

/** Which kind of address it is; null: it may be dialled. */
export function refusedRange (address: string, allowed: readonly string[]): string | null {
  // `process` makes an IPv4 address of one that is mapped into IPv6.
  const parsed = ipaddr.process(address.replace(/%.*/, ''))
  // Also those that carry an IPv4 address, such as 6to4 and NAT64, are of another range than `unicast`.
  const isUnassigned = parsed.range() === 'unicast' && parsed.kind() === 'ipv6' && !parsed.match(PUBLIC_IPV6)
  const range = METADATA.has(parsed.toString()) ? 'metadata' : isUnassigned ? 'reserved' : parsed.range()
  const isAllowed = allowed.some((entry) => {
    const named = NAMED[entry]
    if (named !== undefined) return named.includes(range)
    const [network, bits] = ipaddr.parseCIDR(entry.includes('/') ? entry : `${entry}/${isIP(entry) === 4 ? 32 : 128}`)
    return network.kind() === parsed.kind() && parsed.match(network, bits)
  })
  return isAllowed || range === 'unicast' ? null : range
}

/** An agent that dials public and allowed addresses only. */
export function createGuardedAgent (options: GuardOptions): Agent {
  const { allowed, resolve = createResolve({ likeMachine: allowed !== '' }), connectTimeoutMs } = options
  const ranges = allowed.split(',').map((entry) => entry.trim()).filter((entry) => entry !== '')
  const lookup = lookupBy(async (name) => {
    const found = await resolve(name)
    const usable = found.filter(({ address }) => refusedRange(address, ranges) === null)
    const [first] = found
    if (usable.length > 0 || first === undefined) return usable
    throw refused(first.address, refusedRange(first.address, ranges) ?? '')
  })
  const connect = buildConnector({ timeout: connectTimeoutMs, lookup })
  return new Agent({
    // Zero: a connection serves one request.
    pipelining: 0,
    connect (options, done) {
      // Sockets resolve no addresses. URLs have one spelling of each: 0x7f.1 and 2130706433 are 127.0.0.1 here.
      const host = options.hostname.replace(/^\[|\]$/g, '')
      const range = isIP(host) === 0 ? null : refusedRange(host, ranges)
      if (range !== null) return done(refused(host, range), null)
      connect(options, done)
    }
  })
}
