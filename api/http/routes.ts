/** Declares the routes of a resource: what all of them have in common is written here, once. */
import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods, RouteShorthandOptions } from 'fastify'
import type { Scope, ScopeObject } from '../../schema/scopes.ts'
import { optional, type Value } from './json-schema.ts'
import { cursorQueryProperties } from './list-queries.ts'
import { buildPage, type PageContent, pageQueryProperties, pageSchema } from './pagination.ts'
import { type Access, accessOf } from './personal-key-access.ts'
import { defined } from './request-values.ts'

/**
 * What a route takes and answers: from these schemas come its validation, the types of its handler, and its part of the
 * OpenAPI document.
 */
export interface Route<Params, Query, Body> extends Pick<RouteShorthandOptions, 'bodyLimit' | 'preValidation'> {
  summary: string
  description?: string
  /** Of the path; all of them are there. */
  params?: Params
  query?: Query
  body?: Body
  answer?: object
  /** Schemas by status, of a route that sends its answers itself. */
  answers?: Record<number, object>
  /** Default: to read the object of the resource for GET, else to write it. */
  scope?: Scope | '*'
  config?: FastifyContextConfig
}

type Request<Params, Query, Body> = FastifyRequest<{
  Params: { project_id: string } & Required<Value<Params>>, Querystring: Value<Query>, Body: Value<Body>
}>

/** What it returns is the answer, unless it has sent one. */
type Handler<Params, Query, Body, Answer = unknown> =
  (request: Request<Params, Query, Body>, access: Access, reply: FastifyReply) => Promise<Answer>

type Declare = <const Params, const Query, const Body>(
  path: string, route: Route<Params, Query, Body>, handler: Handler<Params, Query, Body>
) => void

export interface Routes {
  get: Declare
  /** A page of a list. Unless the route says otherwise, its query has the parameters of `pageQuery()`. */
  list: <const Params, const Query = ReturnType<typeof pageQuery>>(
    path: string, route: Omit<Route<Params, Query, undefined>, 'answer'> & { item: object },
    handler: Handler<Params, Query, undefined, PageContent<unknown>>
  ) => void
  /** POST, answered with 201. */
  create: Declare
  post: Declare
  patch: Declare
  delete: Declare
}

/** The query of a list, with parameters of its own between those of every page. */
export function pageQuery<const Own extends object = {}> (own?: Own): {
  type: 'object', properties: typeof pageQueryProperties & Own & typeof cursorQueryProperties
} {
  return optional(Object.assign({ ...pageQueryProperties }, own, cursorQueryProperties))
}

/**
 * @param resource.tag     Of its routes in the OpenAPI document.
 * @param resource.object  What keys need the scope for.
 * @param resource.publicUrl  Base of the links of pages (`buildPage`).
 */
export function routesOf (
  app: FastifyInstance, { tag, object, publicUrl = '' }: { tag: string, object: ScopeObject, publicUrl?: string }
): Routes {
  const declare = (method: HTTPMethods, status: number): Declare => (path, route, handler) => {
    const { summary, description, params, query: querystring, body, answer, answers, scope, config, ...options } = route
    const action = method === 'GET' ? 'read' : 'write'
    const response = answers ?? { [status]: answer ?? (status === 204 ? { type: 'null', description: 'Deleted.' } : {}) }
    // Readings of persons are recorded, and what changes no table whose triggers would say so.
    const recorded = object === 'person' && method !== 'DELETE'
      ? { recorded: 'persons' } as const
      : object === 'dead_letter' && action === 'write' ? { recorded: 'dead_letters' } as const : {}
    const given = defined({ summary, description, params, querystring, body })
    app.route<any>({
      ...options, method, url: path,
      config: { ...recorded, ...config, scope: scope ?? `${object}:${action}` },
      schema: { tags: [tag], ...given, response },
      async handler (request, reply) {
        const result = await handler(request, accessOf(request), reply)
        // A handler that sends its answer waits for its end.
        return reply.raw.headersSent ? undefined : await reply.code(status).send(result)
      }
    })
  }
  const get = declare('GET', 200)
  return {
    get,
    list (path, { item, query, ...route }, handler) {
      const page = { query: query ?? pageQuery(), ...route, answer: pageSchema(item) }
      get(path, page, async (request: any, access, reply) =>
        buildPage(request, publicUrl, await handler(request, access, reply)))
    },
    create: declare('POST', 201),
    post: declare('POST', 200),
    patch: declare('PATCH', 200),
    delete: declare('DELETE', 204)
  }
}
