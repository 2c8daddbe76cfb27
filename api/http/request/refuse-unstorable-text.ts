import { type FastifyRequest } from 'fastify'
import { HttpError } from '../../../platform/errors.ts'

/** Deeper JSON is refused by Postgres (jsonb) and read by nobody. */
const MAX_DEPTH = 64

/**
 * Refuses texts that Postgres cannot hold (NUL, lone surrogates) and bodies nested beyond reason, with the name of
 * the field, before they turn into an error of the database. A `preValidation` hook.
 */
export async function refuseUnstorableText (request: FastifyRequest): Promise<void> {
  check(request.query, [])
  check(request.params, [])
  check(request.body, [])
}

function check (value: unknown, path: string[]): void {
  if (typeof value === 'string') {
    if (value.includes('\0')) throw unstorable(path, 'must not contain NUL characters')
    if (!value.isWellFormed()) throw unstorable(path, 'must be well-formed Unicode')
  } else if (typeof value === 'object' && value !== null) {
    if (path.length >= MAX_DEPTH) throw unstorable(path, `must not be nested deeper than ${MAX_DEPTH} levels`)
    for (const [key, item] of Object.entries(value)) {
      if (key.includes('\0') || !key.isWellFormed()) throw unstorable(path, 'must not have names with NUL or broken Unicode')
      check(item, [...path, key])
    }
  }
}

function unstorable (path: string[], why: string): HttpError {
  const field = path.slice(0, 8).join('__') || 'body'
  return new HttpError(400, 'validation_error', 'invalid_input', `${path[0] ?? 'body'} ${why}.`, { attr: field })
}
