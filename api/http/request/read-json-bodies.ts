import { type FastifyInstance, type FastifyRequest } from 'fastify'
import { HttpError } from '../../../platform/errors.ts'
import { normaliseContentType } from '../../../platform/http-body/normalise-content-type.ts'
import { malformedBody } from '../errors/error-handler.ts'

const JSON_TYPE = /^\s*[\w.-]+\/(?:[\w.+-]*[.+-])?json\s*(?:;|$)/i

/**
 * Reads JSON bodies of the scope, whatever their content type says: clients name many for the same JSON, or none. An
 * empty body is no body, because clients send the content type with DELETE too; `__proto__` and
 * `constructor.prototype` are refused rather than obeyed.
 */
export function readJsonBodies (app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.addHook('onRequest', async ({ headers }) => normaliseContentType(headers))
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'string' }, (request, body, done) => {
    if (body === '') {
      done(null, undefined)
      return
    }
    void parse(request, body as string, (error, value) => error === null ? done(null, value) : done(refusal(request)))
  })
}

/** A body that is not JSON is malformed only if it was meant to be some. */
function refusal ({ headers }: FastifyRequest): HttpError {
  const type = headers['content-type']
  if (type === undefined || JSON_TYPE.test(type)) return malformedBody()
  return new HttpError(415, 'invalid_request', 'unsupported_media_type',
    'Unsupported media type; send application/json.', { attr: 'content-type' })
}
