import { type IncomingMessage } from 'node:http'
import { isIP } from 'node:net'

/**
 * The address a request came from: the first one in `X-Forwarded-For`, else that of the connection. It is stored
 * with events and decides nothing, so a forged header harms only the forger's own data.
 */
export function clientAddress (request: IncomingMessage): string {
  const forwarded = request.headers['x-forwarded-for']
  if (typeof forwarded === 'string') {
    const first = forwarded.split(',', 1)[0]?.trim() ?? ''
    if (isIP(first) !== 0) return first
  }
  const peer = request.socket.remoteAddress ?? ''
  return peer.startsWith('::ffff:') ? peer.slice(7) : peer
}
