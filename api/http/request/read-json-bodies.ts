import { type FastifyInstance } from 'fastify'
import { malformedBody } from '../errors/error-handler.ts'

/**
 * Reads JSON bodies of the scope. An empty body is no body, because clients send the content type with DELETE too;
 * `__proto__` and `constructor.prototype` are refused rather than obeyed.
 */
export function readJsonBodies (app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body === '') {
      done(null, undefined)
      return
    }
    void parse(request, body as string, (error, value) => error === null ? done(null, value) : done(malformedBody()))
  })
}
