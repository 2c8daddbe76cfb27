import { type IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { type Project } from './request-context.ts'

/**
 * The address to store with the events of a request; empty when the project or the request (`ip=0`) wants none.
 *
 * It is the first one in `X-Forwarded-For`, else that of the connection. It is stored and decides nothing, so a forged
 * header harms only the forger's own data.
 */
export function storedAddress (
  request: IncomingMessage, query: Readonly<Record<string, unknown>>, project: Project
): string {
  if (project.anonymizeIps || query.ip === '0') return ''
  const forwarded = request.headers['x-forwarded-for']
  if (typeof forwarded === 'string') {
    const first = forwarded.split(',', 1)[0]?.trim() ?? ''
    if (isIP(first) !== 0) return first
  }
  const peer = request.socket.remoteAddress ?? ''
  return peer.startsWith('::ffff:') ? peer.slice(7) : peer
}
