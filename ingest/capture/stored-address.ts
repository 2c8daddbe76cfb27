import { isIP } from 'node:net'
import { type Project } from './request-context.ts'

/** Who sent a request. Its address is looked up only when it is asked for. */
export interface Sender {
  /** As the trusted proxies say (`MILLRACE_TRUSTED_PROXIES`); that of the connection when there are none. */
  readonly ip: string
  readonly socket: { readonly remoteAddress?: string | undefined }
}

/** An address with a port, as some proxies write it: `10.1.2.3:4567`, `[2001:db8::1]:4567`, or without its port. */
const WITH_PORT = /^(?:\[([^\]]+)\](?::\d+)?|([\d.]+):\d+)$/

/**
 * The address to store with the events of a request; empty when the project or the request (`ip=0`) wants none.
 *
 * It decides nothing. What a trusted proxy passed on that is no address (`unknown`) gives way to the connection's own.
 */
export function storedAddress (
  sender: Sender, query: Readonly<Record<string, unknown>>, project: Project
): string {
  if (project.anonymizeIps || query.ip === '0') return ''
  return toAddress(sender.ip) ?? toAddress(sender.socket.remoteAddress) ?? ''
}

function toAddress (text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const [, bracketed, beforePort] = WITH_PORT.exec(text) ?? []
  const address = bracketed ?? beforePort ?? text
  if (isIP(address) === 0) return undefined
  return address.startsWith('::ffff:') ? address.slice(7) : address
}
