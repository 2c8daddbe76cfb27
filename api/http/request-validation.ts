import { isUtf8 } from 'node:buffer'
import { SerializerSelector } from '@fastify/fast-json-stringify-compiler'
import { Ajv, type AnySchema, type ValidateFunction } from 'ajv'
import ajvFormats from 'ajv-formats'
import type { FastifyInstance, FastifyRequest, FastifySchemaCompiler, FastifySchemaValidationError } from 'fastify'
import { type HttpError, invalidField } from '../../engines/errors.ts'
import { normaliseContentType, tooManyValues } from '../../engines/body/read-body.ts'
import { hasMoreValues } from '../../engines/body/split-json-array.ts'
import { isStorableText } from '../../engines/body/storable-text.ts'
import { isFields } from '../../engines/fields.ts'
import { describeValidationError, malformedBody, unsupportedMediaType } from './answer-errors.ts'
import type { Value } from './json-schema.ts'
import { isIsoDateTime, parseBoolean, parseInteger, UUID } from './request-values.ts'

const JSON_TYPE = /^\s*[\w.-]+\/(?:[\w.+-]*[.+-])?json\s*(?:;|$)/i

/** Of a body: a list of ids of eight bytes each fills the megabyte that it may have. */
const MAX_VALUES = 131_072

/**
 * Parses bodies as JSON, whatever their content type: clients send many types for JSON, or none. An empty body counts
 * as absent, because some clients send a content type with DELETE. `__proto__` and `constructor.prototype` are refused,
 * with the name of the field.
 */
export function readJsonBodies (app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.addHook('onRequest', async ({ headers }) => normaliseContentType(headers))
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (request, bytes, done) => {
    if (bytes.length === 0) return done(null, undefined)
    // JSON is UTF-8; other bytes would be stored as U+FFFD.
    if (hasMoreValues(bytes as Buffer, MAX_VALUES)) return done(tooManyValues(MAX_VALUES))
    if (!isUtf8(bytes as Buffer)) return done(invalidField('body', 'The request body is not UTF-8.', 'malformed_request'))
    const body = bytes.toString()
    void parse(request, body, (error, value) => {
      if (error === null) done(null, value)
      else done(refusal(request, body))
    })
  })
}

/** A body that is not JSON is malformed if its type says JSON or nothing, else of an unsupported type. */
function refusal ({ headers }: FastifyRequest, body: string): HttpError {
  const path = findForbiddenName(body)
  if (path !== undefined) return unstorable(path, `must not have the name ${path.at(-1)}`)
  const type = headers['content-type']
  if (type === undefined || JSON_TYPE.test(type)) return malformedBody()
  return unsupportedMediaType()
}

/**
 * Where a name stands that the parser refuses; undefined when the text is no JSON. Works off a list instead of calling
 * itself, because the body may be nested deeper than the stack.
 */
function findForbiddenName (body: string): string[] | undefined {
  interface Found { value: unknown, name: string, parent?: Found }
  const todo: Found[] = []
  try {
    todo.push({ value: JSON.parse(body), name: '' })
  } catch {
    // Invalid JSON has no names.
    return undefined
  }
  for (let parent = todo.pop(); parent !== undefined; parent = todo.pop()) {
    if (typeof parent.value !== 'object' || parent.value === null) continue
    for (const [name, value] of Object.entries(parent.value)) {
      const found = { value, name, parent }
      if (name !== '__proto__' && (name !== 'prototype' || parent.name !== 'constructor')) {
        todo.push(found)
        continue
      }
      const path: string[] = []
      for (let each: Found = found; each.parent !== undefined; each = each.parent) path.push(each.name)
      return path.reverse()
    }
  }
}

/** Maximum nesting of a body. Postgres refuses jsonb that is nested too deeply. */
const MAX_DEPTH = 64

/**
 * Refuses strings that cannot be stored (NUL, lone surrogates), numbers that would be stored as null, and deeply nested
 * bodies, with the name of the field, before they become an error of the database. A `preValidation` hook.
 */
export async function refuseUnstorableValues (request: FastifyRequest): Promise<void> {
  refuseUnstorableValue(request.query, [])
  refuseUnstorableValue(request.params, [])
  refuseUnstorableValue(request.body, [])
}

/** `path` is one list for the whole walk: a copy for each value takes four times as long in a body of a megabyte. */
export function refuseUnstorableValue (value: unknown, path: (string | number)[]): void {
  if (typeof value === 'string' && !isStorableText(value)) throw unstorable(path, 'must not contain NUL characters or lone surrogates')
  if (typeof value === 'number' && !Number.isFinite(value)) throw unstorable(path, 'must not have a number that no double holds')
  if (typeof value !== 'object' || value === null) return
  if (path.length >= MAX_DEPTH) throw unstorable(path, `must not be nested deeper than ${MAX_DEPTH} levels`)
  // The keys of a list are its indexes, and no text is made of each.
  const entries: Iterable<[string | number, unknown]> = Array.isArray(value) ? value.entries() : Object.entries(value)
  for (const [key, inner] of entries) {
    if (typeof key === 'string' && !isStorableText(key)) throw unstorable(path, 'must not have names with NUL characters or lone surrogates')
    path.push(key)
    refuseUnstorableValue(inner, path)
    path.pop()
  }
}

function unstorable (path: (string | number)[], why: string): HttpError {
  const field = path.slice(0, 8).join('__') || 'body'
  return invalidField(field, `${path[0] ?? 'body'} ${why}.`)
}

/**
 * Compiles the schemas of requests. The parts of a request are validated by different rules:
 *
 * - Bodies are JSON, which has types: nothing is converted, so `tags: "a"` is an error and not `["a"]`, and no unknown
 *   field is dropped silently (the schema decides whether it is refused).
 * - Query, path and headers are strings: `parseInteger` and `parseBoolean` read whole numbers and booleans. What they
 *   cannot read stays a string, which the schema refuses. A parameter that occurs twice is an array, and refused.
 * - A query parameter that the schema does not name is left out before a route sees it: a route that hands on its whole
 *   query hands on nothing else, such as another project.
 *
 * A schema is compiled when its route is used: all of them take a quarter of a second, at each start.
 */
export function createRequestValidation (): FastifySchemaCompiler<AnySchema> {
  const bodies = createAjv({ useDefaults: false })
  const texts = createAjv({ useDefaults: true })
  return ({ schema, httpPart }) => {
    const isText = httpPart !== 'body'
    const read = isText ? createTextReader(schema as SchemaObject, httpPart === 'querystring') : null
    let validate: ValidateFunction | undefined
    return (values) => {
      read?.(values)
      validate ??= (isText ? texts : bodies).compile(schema)
      return validate(values) ? true : { error: validate.errors as FastifySchemaValidationError[] }
    }
  }
}

/** The same for answers: compiled, the schemas of all routes take a fifth of a second. */
export const serializeWhenUsed: ReturnType<typeof SerializerSelector> = (...options) => {
  const compile = SerializerSelector()(...options)
  return (route) => {
    let serialize: ReturnType<typeof compile> | undefined
    return (answer) => (serialize ??= compile(route))(answer)
  }
}

/** Reads a part of a body, at a path of names joined by `__`. @throws {HttpError} 400 naming the field. */
type Reader<T> = (path: string, value: unknown) => T

let readers: Ajv | undefined

/**
 * Returns what reads values by a schema, such as definitions that are kept as they were written. A null in an object is
 * as good as nothing. The schema is compiled when it is first used.
 */
export function createReader<const S extends object> (schema: S): Reader<Value<S>> {
  let validate: ValidateFunction<Value<S>> | undefined
  return (path, value) => {
    readers ??= createAjv({ useDefaults: false })
    validate ??= readers.compile<Value<S>>(schema)
    const given = withoutNulls(value)
    if (validate(given)) return given
    const [error] = validate.errors ?? []
    throw error === undefined ? new RangeError('no error of a schema') : describeValidationError(error, undefined, path.split('__'))
  }
}

function withoutNulls (value: unknown): unknown {
  if (!isFields(value)) return value
  const given = Object.entries(value).filter(([, item]) => item !== null)
  return Object.fromEntries(given.map(([name, item]) => [name, withoutNulls(item)]))
}

interface SchemaObject { properties?: Record<string, { type?: unknown }> }

function createAjv (options: { useDefaults: boolean }): Ajv {
  const ajv = new Ajv({
    ...options,
    coerceTypes: false,
    allowUnionTypes: true,
    strictTypes: false,
    strictRequired: false,
    strict: true,
    // `app.test.ts` validates the schemas; here it would cost a tenth of a second per instance.
    validateSchema: false
  })
  // The packages are CommonJS: under nodenext the callable is typed as their `default`.
  ;(ajvFormats as unknown as (ajv: Ajv) => void)(ajv)
  ajv.addFormat('date-time', isIsoDateTime)
  ajv.addFormat('uuid', UUID)
  // A keyword of OpenAPI without a meaning for validation.
  ajv.addKeyword('example')
  return ajv
}

const READERS: Record<string, (text: string) => unknown> = { integer: parseInteger, boolean: parseBoolean }

/** Returns what makes numbers and booleans of the texts of one part of a request, in place. */
function createTextReader ({ properties = {} }: SchemaObject, isQuery: boolean) {
  const readers = Object.entries(properties).flatMap(([name, { type }]) => {
    const read = READERS[String(type)]
    return read === undefined ? [] : [{ name, read }]
  })
  return (values: Record<string, unknown>): void => {
    if (isQuery) for (const name of Object.keys(values)) if (!Object.hasOwn(properties, name)) delete values[name]
    for (const { name, read } of readers) {
      const text = values[name]
      if (typeof text === 'string') values[name] = read(text) ?? text
    }
  }
}
