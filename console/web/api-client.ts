/** Requests to our own origin, as the user who is logged in. */
import { clockAhead } from './format.ts'
import { readExactly } from './frame/json-text.ts'

/** What the server, or the way to it, says about a request that failed. */
export class ApiError extends Error {
  /** HTTP status; 0 when no answer came. */
  readonly status: number
  /** Such as `not_found`; `no_answer` when none came. */
  readonly code: string
  /** The field of the request that is at fault, levels joined by `__`; null when none is named. */
  readonly attr: string | null

  constructor (status: number, code: string, detail: string, attr: string | null = null) {
    super(detail)
    this.name = 'ApiError'
    this.status = status
    this.code = code
    this.attr = attr
  }
}

export interface RequestOptions {
  method?: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  body?: unknown
  /** Undefined and empty values are left out. */
  query?: Record<string, string | number | boolean | undefined> | undefined
  signal?: AbortSignal
  /** Type of the answer; default: what the API sends without being asked. */
  accept?: string
  /** Of a link, which is sent in the place of the session. */
  key?: string | undefined
}

let ahead = 0

/** The time by the clock of the server, as its answers have it: the clock of this machine may be wrong. */
export const serverNow = (): number => Date.now() + ahead

let askForLogin = async (): Promise<boolean> => false

/** Whether the user is logged in again; undefined while no login is awaited. */
let isBack: Promise<boolean> | undefined

/** @param ask  Called once for each session that ends, with whose result all that waits is sent, or refused. */
export const whenLoggedOut = (ask: () => Promise<boolean>): void => { askForLogin = ask }

/**
 * Sends a request and resolves with the answer's JSON; undefined when it has none.
 *
 * @throws {ApiError} for an answer that is no success, and when none comes.
 */
export async function request<T> (path: string, options: RequestOptions = {}): Promise<T> {
  const text = await (await send(path, options)).text()
  return (text === '' ? undefined : readExactly(text)) as T
}

/** Asks for an answer that goes on. @throws {ApiError} for an answer that is no success, and when none comes. */
export async function openStream (
  path: string, signal: AbortSignal, options: Omit<RequestOptions, 'signal'> = {}
): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
  const { body } = await send(path, { ...options, signal })
  if (body === null) throw new ApiError(0, 'broken_off', 'The answer is empty.')
  return body
}

/** The lines of a text that goes on, as many at a time as came; what has no end of line at the end is left out. */
export async function * readLines (body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string[]> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    const lines = (rest + piece.value).split('\n')
    rest = lines.pop() ?? ''
    if (lines.length > 0) yield lines
  }
}

/** Fetches a file as a whole. @throws {ApiError} for an answer that is no success, and for one that broke off. */
export async function fetchFile (path: string, options: RequestOptions): Promise<Blob> {
  const response = await send(path, options)
  return await response.blob().catch((error: unknown) => {
    if (options.signal?.aborted === true) throw error
    throw new ApiError(0, 'broken_off', 'The download was interrupted: the file is too large for the console, or Millrace was stopped.')
  })
}

/** What is refused as the session has ended is sent again, once, after a login; until then everything waits. */
async function send (path: string, options: RequestOptions, isRepeated = false): Promise<Response> {
  const { method = 'GET', body, signal, accept, key } = options
  const isOfSession = key === undefined && !path.startsWith('/console/')
  if (isOfSession && await isBack === false) throw new ApiError(401, 'not_authenticated', 'Log in first.')
  const sentAt = Date.now()
  const response = await fetch(`${path}${toQuery(options.query)}`, {
    method,
    headers: {
      'millrace-console': '1',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(accept === undefined ? {} : { accept }),
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` })
    },
    credentials: 'same-origin',
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal })
  }).catch((error: unknown) => {
    if (signal?.aborted === true) throw error
    throw new ApiError(0, 'no_answer', 'Millrace does not answer. Check that it runs, and that this machine reaches it.')
  })
  ahead = clockAhead(ahead, response.headers.get('date'), sentAt, Date.now())
  if (response.ok) return response
  const error = readError(response.status, await response.text())
  if (error.status !== 401 || !isOfSession || isRepeated) throw error
  isBack ??= askForLogin().finally(() => { isBack = undefined })
  if (await isBack) return await send(path, options, true)
  throw error
}

/** The part of a page of a list that the console uses. */
export interface Page<T> {
  count: number
  next: string | null
  results: T[]
}

export function toQuery (query: RequestOptions['query'] = {}): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') parameters.set(name, String(value))
  }
  return parameters.size === 0 ? '' : `?${parameters.toString()}`
}

export interface ErrorBody { code: string, detail: string, attr?: string | null }

export function toApiError (status: number, { code, detail, attr = null }: ErrorBody): ApiError {
  return new ApiError(status, code, detail, attr)
}

function readError (status: number, text: string): ApiError {
  try {
    return toApiError(status, JSON.parse(text) as ErrorBody)
  } catch {
    // A proxy in between answers with a page of its own.
    return new ApiError(status, 'unexpected_answer', `The answer was ${status}, without a reason.`)
  }
}
