/**
 * What the catcher of an error should do with the work that failed.
 *
 * - `retry`: the other side could not take it now; the same work may succeed later.
 * - `dead-letter`: the work itself is bad; dead-letter it with its reason and go on.
 * - `stop`: unknown; end the process so that the work is redelivered to a healthy one.
 */
export type FailureAction = 'retry' | 'dead-letter' | 'stop'

export interface MillraceErrorOptions {
  action?: FailureAction
  cause?: unknown
  /** Numbers and names a person on call needs. Never keys, never payloads. */
  details?: Record<string, unknown>
}

/**
 * Base of every error Millrace throws itself.
 *
 * `code` is stable and is what tests and callers compare; `message` is for people and may change.
 */
export class MillraceError extends Error {
  readonly code: string
  readonly action: FailureAction
  readonly details: Record<string, unknown>

  constructor (code: string, message: string, options: MillraceErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'MillraceError'
    this.code = code
    this.action = options.action ?? 'stop'
    this.details = options.details ?? {}
  }
}

/** The settings of a process are wrong. Thrown at start only; lists every problem at once. */
export class SettingsError extends MillraceError {
  readonly problems: readonly string[]

  constructor (problems: readonly string[]) {
    super('MILLRACE_SETTINGS_INVALID', `settings are not valid:\n  ${problems.join('\n  ')}`)
    this.name = 'SettingsError'
    this.problems = problems
  }
}

/**
 * A mistake of the HTTP client, in the shape of the contract: `{ type, code, detail, attr }`.
 *
 * Thrown by any step that reads a request; the one error handler of each app turns it into the answer.
 */
export class HttpError extends MillraceError {
  readonly status: number
  readonly type: HttpErrorType
  readonly detail: string
  readonly attr: string | null

  constructor (status: number, type: HttpErrorType, code: string, detail: string, options: HttpErrorOptions = {}) {
    super(code, detail, options)
    this.name = 'HttpError'
    this.status = status
    this.type = type
    this.detail = detail
    this.attr = options.attr ?? null
  }
}

/** Something in a rule, a schema or a question that cannot be understood or enforced. */
export class DefinitionError extends Error {
  /** Where in it, as a list of names. */
  readonly path: readonly string[]

  constructor (path: readonly string[], message: string) {
    super(message)
    this.name = 'DefinitionError'
    this.path = path
  }
}

/** 400 about a field of a request; `attr` names it, the names of nested fields joined by `__`. */
export function invalidField (attr: string, detail: string, code = 'invalid_input', cause?: unknown): HttpError {
  return new HttpError(400, 'validation_error', code, detail, { attr, cause })
}

/** 403 for a right that is missing; `attr` names the field that needs it. */
export function forbidden (detail: string, attr?: string): HttpError {
  return new HttpError(403, 'authentication_error', 'permission_denied', detail, attr === undefined ? {} : { attr })
}

export type HttpErrorType =
  | 'validation_error'
  | 'authentication_error'
  | 'invalid_request'
  | 'throttled_error'
  | 'server_error'

export interface HttpErrorOptions extends MillraceErrorOptions {
  /** The field at fault; nested fields joined by `__`. */
  attr?: string
}

/** The body every error answer has. */
export interface HttpErrorBody {
  type: HttpErrorType
  code: string
  detail: string
  attr: string | null
}

export function toHttpErrorBody (error: HttpError): HttpErrorBody {
  return { type: error.type, code: error.code, detail: error.detail, attr: error.attr }
}

/** The code of an error of Node, of Postgres or of Millrace; empty without one. */
export function errorCode (error: unknown): string {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : ''
}

/** What `fetch` itself says is "fetch failed"; the socket's error is below it. */
export function reasonOf (error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message || errorCode(error) : reasonOf(error.cause)
}

/** Whether an error is a bug of this process: one of JavaScript or Node, without the code of a socket or a driver. */
export function isBug (error: unknown): boolean {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
  if (code !== undefined && !String(code).startsWith('ERR_')) return false
  return error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError ||
    error instanceof ReferenceError
}

/**
 * What an error of ClickHouse or Postgres means for the work that failed.
 *
 * - `retry`: the store cannot do it now; the same work succeeds later, by itself.
 * - `repair`: the same work succeeds once an operator acted: a missing table, a login, a right. Waiting loses nothing.
 * - `mismatch`: what was sent has another layout than the table: it is broken, or of another version.
 * - `refuse`: the store will never take these values.
 * - `unknown`: not in the table.
 */
export type StoreErrorAction = 'retry' | 'repair' | 'mismatch' | 'refuse' | 'unknown'

/** One line of the table of a store. */
export interface KnownStoreError {
  /** As the documents of the store call it. */
  name: string
  action: StoreErrorAction
  /** For the operator, in few words. */
  why: string
  /** The store refuses connections, hangs, starts or ends: nobody gets an answer, whatever they ask. */
  isDown?: boolean
}

export interface StoreError extends KnownStoreError {
  code: string | number
}
