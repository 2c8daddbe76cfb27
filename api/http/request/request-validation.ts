import { Ajv, type AnySchema, type ValidateFunction } from 'ajv'
import ajvFormats from 'ajv-formats'
import { type FastifySchemaCompiler } from 'fastify'
import { isIsoDateTime } from './iso-date-time.ts'

interface SchemaObject { properties?: Record<string, { type?: unknown }> }

/**
 * Compiles the schemas of requests. Two rules, because the parts of a request differ:
 *
 * - A body is JSON with types of its own: nothing is converted, so `tags: "a"` is an error and not `["a"]`, and no
 *   unknown field is dropped silently (the schemas decide whether it is refused).
 * - Query, path and headers are text: numbers and booleans are converted. Booleans also read `1`, `0` and Python's
 *   `True` and `False`.
 */
export function createRequestValidation (): FastifySchemaCompiler<AnySchema> {
  const strict = createAjv({ coerceTypes: false, useDefaults: false })
  const coercing = createAjv({ coerceTypes: true, useDefaults: true })
  return ({ schema, httpPart }) => {
    if (httpPart === 'body') return strict.compile(schema)
    return httpPart === 'querystring' ? readBooleans(coercing.compile(schema), schema as SchemaObject) : coercing.compile(schema)
  }
}

function createAjv (options: { coerceTypes: boolean, useDefaults: boolean }): Ajv {
  const ajv = new Ajv({
    ...options,
    allowUnionTypes: true,
    strictTypes: false,
    strictRequired: false,
    strict: true,
    // A tenth of a second for each instance, to look again at schemas that `app.test.ts` looks at.
    validateSchema: false
  })
  // The packages are CommonJS: under nodenext the callable is typed as their `default`.
  ;(ajvFormats as unknown as (ajv: Ajv) => void)(ajv)
  ajv.addFormat('date-time', isIsoDateTime)
  // A word of OpenAPI that says nothing about validity.
  ajv.addKeyword('example')
  return ajv
}

const BOOLEAN_WORDS: Record<string, boolean> = { 1: true, 0: false, True: true, False: false, TRUE: true, FALSE: false }

function readBooleans (validate: ValidateFunction, schema: SchemaObject): ValidateFunction {
  const names = Object.entries(schema.properties ?? {}).filter(([, { type }]) => type === 'boolean').map(([name]) => name)
  if (names.length === 0) return validate
  const wrapped = (query: Record<string, unknown>): boolean => {
    for (const name of names) {
      const word = query[name]
      if (typeof word === 'string' && Object.hasOwn(BOOLEAN_WORDS, word)) query[name] = BOOLEAN_WORDS[word]
    }
    const valid = validate(query)
    wrapped.errors = validate.errors ?? null
    return valid
  }
  wrapped.errors = null as ValidateFunction['errors']
  return wrapped as unknown as ValidateFunction
}
