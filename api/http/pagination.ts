import type { FastifyRequest } from 'fastify'
import { object } from './json-schema.ts'

const DEFAULT_LIMIT = 100
const MAX_LIMIT = 1000

/** Maximum offset, the largest integer of Postgres: no list is longer. */
const MAX_OFFSET = 2_147_483_647

/** Query parameters of every list; spread into `properties` of the route's querystring schema. */
export const pageQueryProperties = {
  limit: { type: 'integer', minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT, description: 'Items per page.' },
  offset: { type: 'integer', minimum: 0, maximum: MAX_OFFSET, default: 0, description: 'Items to skip.' }
} as const

export interface PageQuery {
  limit: number
  offset: number
}

export interface Page<T> {
  count: number
  next: string | null
  previous: string | null
  results: T[]
}

/** Schema of the envelope around items of the given schema. */
export function pageSchema (items: object): object {
  return object({
    count: { type: 'integer', description: 'Total number of items.' },
    next: { type: ['string', 'null'], description: 'Link to the next page, with the same filters.' },
    previous: { type: ['string', 'null'], description: 'Link to the previous page, with the same filters.' },
    results: { type: 'array', items }
  })
}

export interface PageContent<T> {
  results: T[]
  count: number
  /** Whether more items follow; by default computed from the count. */
  more?: boolean
  /**
   * Cursor of the last item of this page (`encodeCursor`). The next link has it beside the offset, so that a client who
   * follows links gets no item twice and misses none while others are added or deleted.
   */
  after?: string | undefined
}

/**
 * Wraps a page into its envelope. Links are absolute, and keep the path and all other parameters of the request.
 *
 * @param base  `MILLRACE_PUBLIC_URL`; when empty, the address that the client used.
 */
export function buildPage<T> (request: FastifyRequest, base: string, content: PageContent<T>): Page<T> {
  const { limit, offset } = request.query as PageQuery
  const link = (to: number, after?: string): string =>
    linkWith(request, base, { limit: String(limit), offset: String(to), after })
  const more = content.more ?? offset + content.results.length < content.count
  // A cursor has the name of the last item, which may be the mail address of a person.
  const after = request.access?.seesPersons === false ? undefined : content.after
  return {
    count: content.count,
    next: more ? link(offset + limit, after) : null,
    previous: offset > 0 ? link(Math.max(0, offset - limit)) : null,
    results: content.results
  }
}

/** An absolute link to the path of a request with its parameters, some of them changed; undefined leaves one out. */
export function linkWith (
  request: FastifyRequest, base: string, changes: Record<string, string | undefined>
): string {
  const [path = '', query = ''] = request.url.split('?', 2)
  const parameters = new URLSearchParams(query)
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined) parameters.delete(name)
    else parameters.set(name, value)
  }
  return `${publicOrigin(request, base)}${path}?${parameters.toString()}`
}

/** Names, IPv4, bracketed IPv6, with a port: anything else in a forwarded header is not a host. */
const HOST = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/

/**
 * The base of absolute links: the configured one, else what the client addressed (`X-Forwarded-Proto`,
 * `X-Forwarded-Host`, first entries, as proxies set them), else the request's own host.
 */
export function publicOrigin (request: FastifyRequest, base: string): string {
  if (base !== '') return base.replace(/\/+$/, '')
  const proto = first(request.headers['x-forwarded-proto'])
  const host = [first(request.headers['x-forwarded-host']), request.headers.host].find((name) => name !== undefined && HOST.test(name))
  return `${proto === 'https' || proto === 'http' ? proto : request.protocol}://${host ?? 'localhost'}`
}

function first (header: string | string[] | undefined): string | undefined {
  return [header].flat()[0]?.split(',', 1)[0]?.trim()
}
