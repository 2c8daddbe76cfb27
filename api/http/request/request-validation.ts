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
 * - Query, path and headers are text: whole numbers and booleans are read by `parseInteger` and `parseBoolean`, and
 *   what these do not read stays text, which the schema refuses. A parameter that comes twice is a list, and refused.
 */
export function createRequestValidation (): FastifySchemaCompiler<AnySchema> {
  const bodies = createAjv({ useDefaults: false })
  const texts = createAjv({ useDefaults: true })
  return ({ schema, httpPart }) => {
    if (httpPart === 'body') return bodies.compile(schema)
    return readTexts(texts.compile(schema), schema as SchemaObject)
  }
}

/**
 * Reads a whole number as JSON and SQL write it, without sign +, spaces, leading zeros, fraction, exponent or other
 * bases: anyone who sends `0x10`, `1e3` or `5.0` means something that a guess may miss.
 *
 * @returns undefined for anything else, and beyond 2^53.
 */
export function parseInteger (text: string): number | undefined {
  const value = /^(?:0|-?[1-9]\d{0,15})$/.test(text) ? Number(text) : undefined
  return Number.isSafeInteger(value) ? value : undefined
}

/** Reads a boolean: `true`, `1` and Python's `True`, and their opposites; undefined for anything else. */
export function parseBoolean (text: string): boolean | undefined {
  return Object.hasOwn(BOOLEANS, text) ? BOOLEANS[text] : undefined
}

const BOOLEANS: Record<string, boolean> = {
  true: true, false: false, 1: true, 0: false, True: true, False: false, TRUE: true, FALSE: false
}

/** As Postgres and the tables of ClickHouse write it; the package's own format also allows `urn:uuid:` before it. */
const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i

function createAjv (options: { useDefaults: boolean }): Ajv {
  const ajv = new Ajv({
    ...options,
    coerceTypes: false,
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
  ajv.addFormat('uuid', UUID)
  // A word of OpenAPI that says nothing about validity.
  ajv.addKeyword('example')
  return ajv
}

const READERS: Record<string, (text: string) => unknown> = { integer: parseInteger, boolean: parseBoolean }

function readTexts (validate: ValidateFunction, schema: SchemaObject): ValidateFunction {
  const readers = Object.entries(schema.properties ?? {}).flatMap(([name, { type }]) => {
    const read = READERS[String(type)]
    return read === undefined ? [] : [{ name, read }]
  })
  if (readers.length === 0) return validate
  const wrapped = (values: Record<string, unknown>): boolean => {
    for (const { name, read } of readers) {
      const text = values[name]
      if (typeof text === 'string') values[name] = read(text) ?? text
    }
    const valid = validate(values)
    wrapped.errors = validate.errors ?? null
    return valid
  }
  wrapped.errors = null as ValidateFunction['errors']
  return wrapped as unknown as ValidateFunction
}
