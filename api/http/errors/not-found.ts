import { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { HttpError, toHttpErrorBody } from '../../../platform/errors.ts'

/** The answer for every thing that does not exist, or that the key at hand must not know of. */
export function notFound (): HttpError {
  return new HttpError(404, 'invalid_request', 'not_found', 'Not found.')
}

/**
 * Answers unknown paths with 404 and known paths asked with another method with 405 and `Allow`, in the contract's
 * shape. Call it before routes are registered: it learns them as they come.
 */
export function answerUnknownRoutes (app: FastifyInstance): void {
  const methodsByPath = new Map<string, { pattern: RegExp, methods: Set<string> }>()

  app.addHook('onRoute', ({ url, method }) => {
    const route = methodsByPath.get(url) ?? { pattern: toPattern(url), methods: new Set<string>() }
    for (const name of [method].flat()) route.methods.add(name)
    methodsByPath.set(url, route)
  })

  app.setNotFoundHandler((request: FastifyRequest, reply: FastifyReply) => {
    const path = request.url.split('?', 1)[0] ?? ''
    const allowed = new Set<string>()
    for (const { pattern, methods } of methodsByPath.values()) {
      if (pattern.test(path)) for (const method of methods) allowed.add(method)
    }
    if (allowed.size === 0) {
      reply.code(404).send(toHttpErrorBody(notFound()))
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
