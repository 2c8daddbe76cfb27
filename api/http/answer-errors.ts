import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest, FastifySchemaValidationError } from 'fastify'
import { describeClickHouseError, tookTooLong } from './describe-clickhouse-error.ts'
import { allowUnserved } from '../../platform/cross-origin.ts'
import { HttpError, invalidField, toHttpErrorBody } from '../../engines/errors.ts'
import { fieldsOf } from '../../engines/fields.ts'
import { classifyPostgresError } from '../../platform/postgres/postgres-errors.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Errors of the route have no body but the header `millrace-error` with their code: SDKs take any JSON body of this
     * route as the answer, whatever the status.
     */
    errorsWithoutBody?: boolean
  }
}

/**
 * The one error handler of the API: every error becomes `{ type, code, detail, attr }`.
 *
 * An unexpected error is answered with 500 and no details, and logged with the request id.
 */
export async function errorHandler (error: FastifyError, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const known = toHttpError(error)
  if (known === undefined) {
    request.log.error({ err: error, reqId: request.id }, 'request failed')
    return await send(reply, new HttpError(500, 'server_error', 'error', 'A server error occurred.'))
  }
  if (known.status >= 500) {
    request.log.warn({ err: error, code: known.code, reqId: request.id }, 'request failed')
  }
  await send(reply, known)
}

async function send (reply: FastifyReply, error: HttpError): Promise<void> {
  const { status, details: { retryAfterSeconds: seconds = 5 } } = error
  // A rate limit has its own.
  if ((status === 503 || status === 429) && !reply.hasHeader('retry-after')) reply.header('retry-after', String(seconds))
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
  return describeFastifyError(error) ?? describePostgresError(error)
}

/** Errors of Fastify while it reads a request, by their stable codes. */
function describeFastifyError (error: FastifyError): HttpError | undefined {
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new HttpError(413, 'validation_error', 'request_too_large', 'The request body is too large.', { attr: 'body' })
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return new HttpError(414, 'invalid_request', 'invalid_request', 'A part of the path is too long.')
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return unsupportedMediaType()
    case 'FST_ERR_CTP_INVALID_JSON_BODY':
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return malformedBody()
    default:
      // Other client errors of Fastify or a plugin, such as a path that cannot be decoded.
      if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500) {
        return new HttpError(error.statusCode, 'invalid_request', 'invalid_request', 'The request could not be read.')
      }
  }
}

/**
 * The answer to an error of Postgres: 503 when the same request may succeed later, 400 for a value that no
 * column can hold; undefined for a bug or a fault of the installation, which is a 500. Violated constraints are handled
 * where they are expected, because only there the field is known.
 */
function describePostgresError (error: unknown): HttpError | undefined {
  const { action, code } = classifyPostgresError(error)
  if (action === 'retry') {
    return new HttpError(503, 'server_error', 'database_unavailable',
      'Postgres is unavailable; try again later.', { cause: error, action })
  }
  if (action === 'refuse' && code.startsWith('22')) {
    return new HttpError(400, 'validation_error', 'invalid_input', 'A value of the request cannot be stored.', { cause: error })
  }
}

/** True for the violation of the named unique constraint or index; of any, without a name. */
export function isUniqueViolation (error: unknown, constraint?: string): boolean {
  if (classifyPostgresError(error).name !== 'unique_violation') return false
  return constraint === undefined || fieldsOf(error).constraint === constraint
}

/** How long a reader waits for a store that hangs, in milliseconds; a healthy one answers within a second or two. */
export const PATIENCE_MS = 15_000

/**
 * The answer of the stores to a reader.
 *
 * @throws {HttpError} 503 `clickhouse_timeout` when it takes too long, `clickhouse_unavailable` when it cannot be
 *   given; else what the work throws.
 */
export async function answerInTime<T> (work: Promise<T>, patienceMs: number = PATIENCE_MS): Promise<T> {
  const late = Symbol('late')
  const { promise, resolve } = Promise.withResolvers<typeof late>()
  const timer = setTimeout(() => resolve(late), patienceMs)
  const answer = await Promise.race([work, promise])
    .catch((error: unknown) => { throw describeClickHouseError(error) })
    .finally(() => clearTimeout(timer))
  if (answer !== late) return answer as T
  throw tookTooLong(`ClickHouse has not answered within ${patienceMs / 1000} s; try again later.`)
}

/**
 * Turns the first violation of a route schema into an error of the contract: 400 with the name of the field in `attr`.
 *
 * Nested fields are joined by `__` (`filters__events__0__id`), as the clients of the reference expect. Codes:
 * `required` for an absent field, `unknown_field` for one that the schema does not declare, else `invalid_input`.
 *
 * @param at  Where the value that was checked stands in the request.
 */
export function describeValidationError (
  error: FastifySchemaValidationError, part: string | undefined, at: readonly string[] = []
): HttpError {
  const names = error.instancePath.split('/').slice(1).map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'))
  const path = [...at, ...names]
  switch (error.keyword) {
    case 'required':
    case 'dependencies': {
      const field = String(error.params.missingProperty)
      return validationError('required', `${field}: This field is required.`, [...path, field])
    }
    case 'additionalProperties':
    case 'unevaluatedProperties': {
      const field = String(error.params.additionalProperty ?? error.params.unevaluatedProperty)
      return validationError('unknown_field', `${field}: This field is unknown.`, [...path, field])
    }
    default: {
      // An item of a list has no name of its own.
      const name = path.slice(path.findLastIndex((each) => !/^\d+$/.test(each))).join(' ') || (part ?? 'body')
      return validationError('invalid_input', `${name} ${describeRule(error)}.`, path.length > 0 ? path : [name])
    }
  }
}

function validationError (code: string, detail: string, path: string[]): HttpError {
  return invalidField(path.join('__'), detail, code)
}

const FORMATS: Record<string, string> = {
  'date-time': 'must be an ISO 8601 date or date-time', uuid: 'must be a UUID'
}

function describeRule ({ keyword, params, message }: FastifySchemaValidationError): string {
  if (keyword === 'pattern' && params.pattern === '\\S') return 'must not be blank'
  if (keyword === 'minLength' && Number(params.limit) === 1) return 'must not be empty'
  if (keyword === 'maxItems' && Number(params.limit) === 0) return 'must be empty: it is not supported'
  if (keyword === 'format') return FORMATS[String(params.format)] ?? `must be of format ${String(params.format)}`
  if (keyword === 'type') return `must be of type ${[params.type].flat().join(' or ')}`
  if (keyword === 'enum') return `must be one of ${(params.allowedValues as unknown[]).map(String).join(', ')}`
  if (keyword === 'uniqueItems') return 'must not repeat an item'
  return message?.replace('NOT', 'not') ?? 'is not valid'
}

/**
 * Answers unknown paths with 404, and known paths with another method with 405 and `Allow`, in the shape of the
 * contract. Call it before registering routes, because it collects them.
 */
export function answerUnknownRoutes (app: FastifyInstance): void {
  const methodsByPath = new Map<string, { pattern: RegExp, methods: Set<string> }>()

  app.addHook('onRoute', ({ url, method }) => {
    const route = methodsByPath.get(url) ?? { pattern: toPattern(url), methods: new Set<string>() }
    for (const name of [method].flat()) route.methods.add(name)
    methodsByPath.set(url, route)
  })

  // Before the body is read: an error in it must not hide that the path has no route.
  app.addHook('onRequest', (request, reply, done) => {
    if (!request.is404) return done()
    const path = request.url.split('?', 1)[0] ?? ''
    const allowed = new Set<string>()
    for (const { pattern, methods } of methodsByPath.values()) {
      if (pattern.test(path)) for (const method of methods) allowed.add(method)
    }
    if (allowed.size === 0) {
      if (!allowUnserved(request, reply)) reply.code(404).send(toHttpErrorBody(notFound()))
      return
    }
    const error = new HttpError(405, 'invalid_request', 'method_not_allowed', `Method "${request.method}" not allowed.`)
    reply.code(405).header('allow', [...allowed].sort().join(', ')).send(toHttpErrorBody(error))
  })
}

/** `/projects/:id/` matches both slash forms of the path, as the router does. */
function toPattern (url: string): RegExp {
  const body = url.replace(/\/$/, '')
    .split('/')
    .map((segment) => segment.startsWith(':') ? '[^/]+' : segment === '*' ? '.*' : RegExp.escape(segment))
    .join('/')
  return new RegExp(`^${body}/?$`)
}

/** The body is not the JSON it claims to be. */
export function malformedBody (): HttpError {
  return invalidField('body', 'The request body is not valid JSON.', 'malformed_request')
}

/** The body is of another type than JSON. */
export function unsupportedMediaType (): HttpError {
  return new HttpError(415, 'invalid_request', 'unsupported_media_type',
    'Unsupported media type; send application/json.', { attr: 'content-type' })
}

/** The answer for anything that does not exist or that the key has no access to. */
export function notFound (): HttpError {
  return new HttpError(404, 'invalid_request', 'not_found', 'Not found.')
}

/** Returns the found object. @throws {HttpError} 404 if it is missing. */
export function orNotFound<T> (found: T | null | undefined): T {
  if (found === undefined || found === null) throw notFound()
  return found
}
