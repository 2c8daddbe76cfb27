import type { FastifyReply, FastifyRequest } from 'fastify'
import { HttpError, toHttpErrorBody } from '../../engines/errors.ts'
import type { Logger } from '../../platform/logger.ts'

/** SDKs that honour it come back after this many seconds. */
const RETRY_AFTER_SECONDS = '5'

export type AnswerError = (error: unknown, request: FastifyRequest, reply: FastifyReply) => void

/** Turns what a route threw into the answer of the contract: `{ type, code, detail, attr }`. */
export function createAnswerError (logger: Logger): AnswerError {
  return function answerError (error, request, reply) {
    const known = error instanceof HttpError ? error : translate(error)
    if (known.status >= 500) logger.error({ err: error, requestId: request.id }, 'request failed')
    const { retryAfterSeconds } = known.details
    if (known.status === 503) reply.header('retry-after', RETRY_AFTER_SECONDS)
    else if (typeof retryAfterSeconds === 'number') reply.header('retry-after', String(retryAfterSeconds))
    // The detail may repeat what the client sent.
    reply.header('x-content-type-options', 'nosniff').code(known.status).type('application/json; charset=utf-8').send(toHttpErrorBody(known))
  }
}

/** Errors of Fastify itself carry a status; anything else is a bug and says nothing about it. */
function translate (error: unknown): HttpError {
  const { statusCode, code } = error as { statusCode?: number, code?: string }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    const detail = error instanceof Error ? error.message : 'The request is not valid.'
    return new HttpError(statusCode, 'validation_error', code ?? 'invalid_request', detail, { cause: error })
  }
  return new HttpError(500, 'server_error', 'error', 'A server error occurred.', { cause: error })
}
