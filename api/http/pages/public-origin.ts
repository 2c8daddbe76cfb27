import { type FastifyRequest } from 'fastify'

/** Names, IPv4, bracketed IPv6, with a port: anything else in a forwarded header is not a host. */
const HOST = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/

/**
 * The base of absolute links: the configured one, else what the client addressed (`X-Forwarded-Proto`,
 * `X-Forwarded-Host`, first entries, as proxies set them), else the request's own host.
 */
export function publicOrigin (request: FastifyRequest, base: string): string {
  if (base !== '') return base.replace(/\/+$/, '')
  const proto = first(request.headers['x-forwarded-proto'])
  const host = [first(request.headers['x-forwarded-host']), request.headers.host].find((name) => name !== undefined && HOST.test(name))
  return `${proto === 'https' || proto === 'http' ? proto : request.protocol}://${host ?? 'localhost'}`
}

function first (header: string | string[] | undefined): string | undefined {
  return [header].flat()[0]?.split(',', 1)[0]?.trim()
}
