/**
 * The errors of the server look like those of a server: `Code: N. DB::Exception: text. (NAME) (version ...)`, with the
 * status a server answers. Clients read the code, the name and the header, so all three must be right.
 */

/** The codes the server raises itself, with ClickHouse's names. */
const NAMES = {
  36: 'BAD_ARGUMENTS', 46: 'UNKNOWN_FUNCTION', 48: 'NOT_IMPLEMENTED', 62: 'SYNTAX_ERROR',
  115: 'UNKNOWN_SETTING', 164: 'READONLY', 159: 'TIMEOUT_EXCEEDED', 202: 'TOO_MANY_SIMULTANEOUS_QUERIES',
  209: 'SOCKET_TIMEOUT', 210: 'NETWORK_ERROR', 216: 'QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING',
  229: 'QUERY_IS_TOO_LARGE', 236: 'ABORTED', 243: 'NOT_ENOUGH_SPACE', 344: 'SUPPORT_IS_DISABLED',
  354: 'ZLIB_INFLATE_FAILED', 381: 'HTTP_LENGTH_REQUIRED', 394: 'QUERY_WAS_CANCELLED',
  452: 'SETTING_CONSTRAINT_VIOLATION', 456: 'UNKNOWN_QUERY_PARAMETER', 497: 'ACCESS_DENIED',
  511: 'UNKNOWN_ROLE', 516: 'AUTHENTICATION_FAILED', 1002: 'UNKNOWN_EXCEPTION'
} as const

export type QueryErrorCode = keyof typeof NAMES

/** An error the server itself finds; the engine's own ones arrive as text. */
export class QueryError extends Error {
  /** ClickHouse's number of the error. */
  readonly code: QueryErrorCode

  constructor (code: QueryErrorCode, text: string) {
    super(`Code: ${code}. DB::Exception: ${text.replace(/\.$/, '')}. (${NAMES[code]})`)
    this.name = 'QueryError'
    this.code = code
  }
}

/** What is sent for an error: number for the header, text for the body, HTTP status. */
export interface ErrorAnswer {
  code: number
  text: string
  status: number
}

/**
 * The answer to any error: the server's, the engine's, or an unexpected one (code 1002, status 500; the caller
 * logs it).
 *
 * @param version  Of the engine, repeated at the end of the text as servers do.
 */
export function toErrorAnswer (error: unknown, version: string): ErrorAnswer {
  const message = error instanceof Error ? error.message : String(error)
  const text = message.startsWith('Code: ') ? unwrapNested(message) : describeSystemError(error, message)
  const code = Number(/^Code: (\d+)/.exec(text)![1])
  return { code, text: `${tidySyntaxError(withoutSpool(text))} (version ${version} (official build))\n`, status: STATUS_BY_CODE.get(code) ?? 500 }
}

/** The engine repeats `Code: N. DB::Exception:` for each layer that passed the error on; a server says it once. */
function unwrapNested (message: string): string {
  let text = message.trim()
  for (;;) {
    const prefix = /^Code: (\d+)\. DB::Exception: (?=Code: \1\. )/.exec(text)
    if (prefix === null) return text
    text = text.slice(prefix[0].length).replace(/ \(version [\d.]+(?: \([a-z ]+\))?\)\. \([A-Z_0-9]+\)$/, '')
  }
}

/**
 * An error of the parser repeats the statement, with the clause of the server's own that led its rows into a pipe. And
 * it names the word where it stopped in brackets, where clients look for the name of the error: `(JSON)`.
 */
function tidySyntaxError (text: string): string {
  return text.replaceAll(/\nINTO OUTFILE '(?:[^'\\]|\\.)*' APPEND FORMAT \w+\n?/g, '')
    .replace(/^(Code: 62\. DB::Exception: Syntax error.*? failed at position \d+ )\(([A-Z0-9_]+)\)/, "$1('$2')")
}

/** The engine names the file in which the rows of an insert wait; for the client they are those of its request. */
function withoutSpool (text: string): string {
  return text.replace(/\(in file\/uri \/[^)]*\): /, '').replace(/: While executing File(?=\. \([A-Z_0-9]+\)$)/, '')
}

/** The code of an error of Node; empty without one. */
export function errorCode (error: unknown): string {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : ''
}

function describeSystemError (error: unknown, message: string): string {
  const errno = errorCode(error)
  if (errno === 'ENOSPC' || errno === 'EDQUOT') return new QueryError(243, `Cannot spool: ${message}`).message
  if (errno === 'ECONNRESET' || errno === 'ERR_STREAM_PREMATURE_CLOSE') return new QueryError(210, message).message
  if (/^Z_|^ERR__?ERROR_FORMAT|^ERR_BROTLI|^ZSTD_/.test(errno)) return new QueryError(354, message).message
  return new QueryError(1002, message).message
}

/** As a server's table of codes and statuses; every other code is answered with 500. */
const STATUS_BY_CODE = new Map(Object.entries({
  // What the client wrote cannot be read or does not fit its type.
  400: [6, 8, 15, 25, 26, 27, 36, 37, 38, 41, 44, 53, 62, 72, 117, 123, 167, 168, 223, 321, 376, 427, 441, 675, 676],
  401: [194],
  403: [192, 193, 497, 512, 516],
  // A name in the query is unknown.
  404: [46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 152, 336, 511],
  ...{ 408: [159], 411: [381], 413: [229], 415: [779], 501: [48], 503: [76, 209, 439] }
}).flatMap(([status, codes]) => codes.map((code) => [code, Number(status)])))

/** Of an analyst's statement that does not only read. */
export function readOnly (): QueryError {
  return new QueryError(164, 'analyst: Cannot execute query in readonly mode')
}

/** Of what an analyst may not name. */
export function denied (what: string): QueryError {
  return new QueryError(497, `analyst: Not enough privileges to use ${what}`)
}

/** Of what neither the engine nor the owner has: a typing error, told as one. */
export function unknownFunction (name: string): QueryError {
  return new QueryError(46, `analyst: Function with name \`${name}\` does not exist`)
}

/** Of a statement that writes, in a request whose method only reads. */
export function readOnlyMethodError (): QueryError {
  return new QueryError(164, 'Cannot execute query in readonly mode. For queries over HTTP, method GET implies ' +
    'readonly. You should use method POST for modifying queries')
}
