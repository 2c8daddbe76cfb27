import type { FastifyReply, FastifyRequest } from 'fastify'

/** How long a browser may remember the answer to a preflight: a day. Browsers shorten it to 2 h or so. */
const PREFLIGHT_SECONDS = '86400'

/**
 * Lets pages of any origin read the answer, with credentials, as SDKs in browsers need: what they are given is public
 * with the project key, which is public anyway.
 */
export function allowOrigin (request: FastifyRequest, reply: FastifyReply): void {
  const { origin } = request.headers
  if (origin === undefined) return
  const headers = allowedOrigin(origin)
  for (let i = 0; i < headers.length; i += 2) reply.header(headers[i] as string, headers[i + 1])
}

/** The headers that let an origin read an answer: name, value, name, ... */
export function allowedOrigin (origin: string): string[] {
  return ['access-control-allow-origin', origin, 'access-control-allow-credentials', 'true', 'vary', 'Origin']
}

/**
 * Sets what a browser asks for by OPTIONS before a request with headers of its own.
 *
 * @param methods  The methods that the path takes, comma separated.
 */
export function allowPreflight (request: FastifyRequest, reply: FastifyReply, methods: string): FastifyReply {
  const asked = request.headers['access-control-request-headers']
  if (asked !== undefined) reply.header('access-control-allow-headers', asked)
  return reply
    .header('access-control-allow-methods', methods)
    .header('access-control-max-age', PREFLIGHT_SECONDS)
}

/**
 * Lets a page of any origin read that what it asks for is not served. Without that, or when the preflight before its
 * request fails, its console speaks of the origin instead.
 *
 * @returns whether the request was a preflight, which is answered by this.
 */
export function allowUnserved (request: FastifyRequest, reply: FastifyReply): boolean {
  allowOrigin(request, reply)
  const asked = request.headers['access-control-request-method']
  if (request.method !== 'OPTIONS' || asked === undefined) return false
  // A later version may serve the path.
  allowPreflight(request, reply, asked).header('access-control-max-age', '0').code(204).send()
  return true
}
