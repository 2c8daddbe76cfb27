import { type FastifyError, type FastifyReply, type FastifyRequest } from 'fastify'
import { HttpError, toHttpErrorBody } from '../../../platform/errors.ts'
import { drainRequest } from '../../../platform/http-body/drain-request.ts'
import { classifyPostgresError } from './classify-postgres-error.ts'
import { describeValidationError } from './describe-validation-error.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Errors of the route have no body, and their code in the header `millrace-error`: SDKs read whatever is JSON there
     * as the answer, whatever the status.
     */
    errorsWithoutBody?: boolean
  }
}

/**
 * The one error handler of the API: every error becomes `{ type, code, detail, attr }`.
 *
 * An unexpected error is answered 500 without a word about its inside, and logged with the request's id.
 */
export async function errorHandler (error: FastifyError, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  await drainRequest(request.raw)
  const known = toHttpError(error)
  if (known === undefined) {
    request.log.error({ err: error }, 'request failed')
    return await send(reply, new HttpError(500, 'server_error', 'error', 'A server error occurred.'))
  }
  if (known.status >= 500) request.log.warn({ err: error, code: known.code }, 'request could not be served')
  await send(reply, known)
}

async function send (reply: FastifyReply, error: HttpError): Promise<void> {
  if (error.status === 503) reply.header('retry-after', '5')
  if (error.status === 401) reply.header('www-authenticate', 'Bearer')
  reply.code(error.status)
  if (reply.request.routeOptions.config.errorsWithoutBody === true) {
    await reply.header('millrace-error', error.code).send()
    return
  }
  await reply.send(toHttpErrorBody(error))
}

function toHttpError (error: FastifyError | HttpError): HttpError | undefined {
  if (error instanceof HttpError) return error
  const finding = error.validation?.[0]
  if (finding !== undefined) return describeValidationError(finding, error.validationContext)
  return describeFastifyError(error) ?? classifyPostgresError(error)
}

/** Errors that Fastify itself raises while it reads a request, by its stable codes. */
function describeFastifyError (error: FastifyError): HttpError | undefined {
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new HttpError(413, 'validation_error', 'request_too_large', 'The request body is too large.', { attr: 'body' })
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new HttpError(415, 'invalid_request', 'unsupported_media_type',
        'Unsupported media type; send application/json.', { attr: 'content-type' })
    case 'FST_ERR_CTP_INVALID_JSON_BODY':
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return malformedBody()
    default:
      // Anything else that Fastify or a plugin blames on the client, such as a path that does not decode.
      if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500) {
        return new HttpError(error.statusCode, 'invalid_request', 'invalid_request', 'The request could not be read.')
      }
  }
}

/** The body is not the JSON it claims to be. */
export function malformedBody (): HttpError {
  return new HttpError(400, 'validation_error', 'malformed_request', 'The request body is not valid JSON.', { attr: 'body' })
}
