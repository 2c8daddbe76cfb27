import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Credentials, findRunningStack } from '../embedded/data-dir/stack-access.ts'
import { parseStoredJson } from '../engines/body/parse-json.ts'
import { errorCode, HttpError, type HttpErrorBody, MillraceError, reasonOf } from '../engines/errors.ts'
import { loadSettings } from '../platform/load-settings.ts'
import type { paths } from '../console/api.generated.d.ts'
import type { Answer } from '../console/api-types.ts'

type Query = Readonly<Record<string, string | number | boolean | undefined>>

interface Request {
  /** Values of the parameters of the path, such as `id`. */
  params?: Readonly<Record<string, string | number>>
  query?: Query
  body?: unknown
  /** Longest wait for the answer, in milliseconds; default: that of `--timeout`. */
  timeoutMs?: number
}

type PathsWith<Method extends string> = {
  [Path in keyof paths]: paths[Path] extends { [M in Method]: { responses: object } } ? Path : never
}[keyof paths]

/** The management API. Paths are those of the OpenAPI document, whose types the answers have. */
export interface ManagementClient {
  get: <Path extends PathsWith<'get'>>(path: Path, request?: Request) => Promise<Answer<Path>>
  post: <Path extends PathsWith<'post'>>(path: Path, request?: Request) => Promise<Answer<Path, 'post'>>
  patch: <Path extends PathsWith<'patch'>>(path: Path, request?: Request) => Promise<Answer<Path, 'patch'>>
  /** Sends a request to any path, query included. @returns the JSON of the answer, if it has one. */
  send: (method: string, path: string, request: Pick<Request, 'body' | 'timeoutMs'>) => Promise<unknown>
  /** @returns the bytes of the answer, as they come. */
  download: (path: PathsWith<'get'>, request?: Request) => Promise<ReadableStream<Uint8Array>>
  /** @returns the status of the answer. */
  delete: (path: PathsWith<'delete'>, request?: Request) => Promise<number>
}

/** Where the API is, and the personal key for it. */
export interface ManagementAccess { url: string, key: string }

/**
 * Finds the API of a command: `--url` and `--key`, else `MILLRACE_URL` and `MILLRACE_KEY`, else the stack that runs on
 * the data directory with its own key.
 *
 * @throws {MillraceError} `MILLRACE_KEY_MISSING`; when the stack on the data directory is stopped, or this user may not
 *   read it.
 */
export async function findManagementApi (
  env: NodeJS.ProcessEnv, given: Partial<ManagementAccess>
): Promise<ManagementAccess> {
  const settings = loadSettings(env, ['MILLRACE_URL', 'MILLRACE_KEY', 'MILLRACE_DATA_DIR', 'MILLRACE_PORT'])
  const { MILLRACE_DATA_DIR: dataDir, MILLRACE_PORT: port } = settings
  const named = { url: given.url ?? settings.MILLRACE_URL, key: given.key ?? settings.MILLRACE_KEY }
  if (named.url !== '' && named.key !== '') return named
  const stack = named.url === '' ? await findRunningStack(dataDir) : undefined
  const url = named.url === '' ? stack?.baseUrl ?? `http://127.0.0.1:${port}` : named.url
  const key = named.key === '' && stack !== undefined ? await readOwnKey(dataDir) : named.key
  if (key !== '') return { url, key }
  throw new MillraceError('MILLRACE_KEY_MISSING', `no personal API key for ${url}: pass --key, or set MILLRACE_KEY, or set MILLRACE_DATA_DIR to the data directory of a stack on this machine`)
}

async function readOwnKey (dataDir: string): Promise<string> {
  return (JSON.parse(await readFile(join(dataDir, 'credentials.json'), 'utf8')) as Credentials).personalApiKey
}

/**
 * @param findAccess  Called with the first request.
 * @param timeoutMs  Longest wait for an answer, in milliseconds.
 */
export function createManagementClient (
  findAccess: () => Promise<ManagementAccess>, timeoutMs: () => number
): ManagementClient {
  let found: Promise<ManagementAccess> | undefined

  async function send (method: string, template: string, request: Request = {}): Promise<Response> {
    const { params = {}, query = {}, body, timeoutMs: patience = timeoutMs() } = request
    const { url, key } = await (found ??= findAccess())
    const path = template.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
    const target = new URL(path, url)
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) target.searchParams.set(name, String(value))
    }
    const response = await fetch(target, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      signal: AbortSignal.timeout(patience),
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    }).catch((cause: unknown) => {
      throw new MillraceError('MILLRACE_API_UNAVAILABLE', `the API at ${url} does not answer (${reasonOf(cause)}); check npx millrace status, start Millrace ` +
        '(npx millrace start), or pass --url', { cause, action: 'retry' })
    })
    if (response.ok) return response
    const error = await readError(response)
    const project = params['project_id']
    if (isNotFound(error) && project !== undefined && (template === PROJECT || !await hasProject(project))) {
      throw new MillraceError('MILLRACE_PROJECT_NOT_FOUND', `there is no project ${project}, or the key cannot access it; npx millrace projects list shows all`)
    }
    throw error
  }

  async function hasProject (id: string | number): Promise<boolean> {
    return await send('GET', PROJECT, { params: { project_id: id } }).then(() => true, (error: unknown) => errorCode(error) !== 'MILLRACE_PROJECT_NOT_FOUND')
  }

  // The API serialises its answers by the schemas that the types are made of.
  const read = async (method: string, template: string, request?: Request): Promise<never> =>
    parseStoredJson(await (await send(method, template, request)).text()) as never
  return {
    get: async (template, request) => await read('GET', template, request),
    post: async (template, request) => await read('POST', template, request),
    patch: async (template, request) => await read('PATCH', template, request),
    async send (method, path, request) {
      const text = await (await send(method, path, request)).text()
      return text === '' ? undefined : parseStoredJson(text)
    },
    download: async (template, request) => (await send('GET', template, request)).body ?? new ReadableStream(),
    delete: async (template, request) => (await send('DELETE', template, request)).status
  }
}

const PROJECT = '/api/projects/{project_id}'

function isNotFound (error: unknown): boolean {
  return error instanceof HttpError && error.status === 404
}

/** Items of a page at most. */
const PAGE_ITEMS = 1000

/**
 * The items of a list, page by page.
 *
 * @param readPage  Gets what to add to the query: the size of the page, then what the link to the next one has.
 */
export async function listAll<T> (
  readPage: (query: Query) => Promise<{ results: T[], next: string | null }>, most = Infinity
): Promise<T[]> {
  const items: T[] = []
  let query: Query = { limit: Math.min(most, PAGE_ITEMS) }
  for (;;) {
    const { results, next } = await readPage(query)
    items.push(...results)
    if (next === null || items.length >= most) return items.slice(0, most)
    query = Object.fromEntries(new URL(next).searchParams)
  }
}

/** An answer, or undefined when the API says that there is no such thing. */
export async function orNone<T> (answer: Promise<T>): Promise<T | undefined> {
  return await answer.catch((error: unknown) => {
    if (!isNotFound(error)) throw error
    return undefined
  })
}

async function readError (response: Response): Promise<MillraceError> {
  const text = await response.text()
  try {
    const { type, code, detail, attr } = JSON.parse(text) as Partial<HttpErrorBody>
    if (type === undefined || code === undefined || detail === undefined) throw new Error('no body of an error')
    return new HttpError(response.status, type, code, detail, typeof attr === 'string' ? { attr } : {})
  } catch {
    // Something in between answers with a page of its own.
    return new MillraceError('MILLRACE_API_UNAVAILABLE', `${response.url} answered ${response.status}, but the response is not from the Millrace API (a proxy?)`)
  }
}
