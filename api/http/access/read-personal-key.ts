import { type FastifyRequest } from 'fastify'
import { HttpError } from '../../../platform/errors.ts'

const BEARER = /^Bearer +(\S+)\s*$/i

const METHODS_WITH_BODY = new Set(['POST', 'PUT', 'PATCH'])

/**
 * Finds the personal key of a request: header, then body, then query.
 *
 * A key in the body is taken out of it, so that routes see only their own fields.
 *
 * @param stage  `head` before the body is read: undefined when the body may still bring a key. `body` after it.
 * @throws {HttpError} 401 when the request has no key, or the header is not `Bearer <key>`.
 */
export function readPersonalKey (request: FastifyRequest, stage: 'head' | 'body'): string | undefined {
  const header = request.headers.authorization
  if (header !== undefined) {
    if (stage === 'body') return undefined
    const match = BEARER.exec(header)
    if (match?.[1] === undefined) {
      throw new HttpError(401, 'authentication_error', 'authentication_failed',
        'The Authorization header must be "Bearer <personal API key>".')
    }
    return match[1]
  }
  const mayComeInBody = METHODS_WITH_BODY.has(request.method)
  if (stage === 'head' && mayComeInBody) return undefined
  if (stage === 'body' && !mayComeInBody) return undefined

  const key = takeFromBody(request.body) ?? (request.query as Record<string, unknown>)['personal_api_key']
  if (typeof key === 'string' && key !== '') return key
  throw new HttpError(401, 'authentication_error', 'not_authenticated', 'Authentication credentials were not provided.')
}

function takeFromBody (body: unknown): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return undefined
  const fields = body as Record<string, unknown>
  const key = fields['personal_api_key']
  delete fields['personal_api_key']
  return key
}
