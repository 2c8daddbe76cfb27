import type { ValidateFunction } from 'ajv'
import ajvFormats from 'ajv-formats'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { Stack } from '../start-stack.ts'

export interface ContractAnswer {
  status: number
  headers: Headers
  // Answers are looked at by assertions, which is where their shape is checked.
  body: any
}

/** The part of tap's `t` that is needed to report. */
interface Assertions {
  equal (found: unknown, wanted: unknown, message: string): unknown
}

/** Speaks HTTP to the one origin of a running system; a path that begins with `~` is below project 1. */
export interface ContractClient {
  /** A request as the first user; the answer is compared with the OpenAPI document on the way. */
  call: (t: Assertions, method: string, path: string, body?: unknown, options?: CallOptions) => Promise<ContractAnswer>
  /** A request whose answer goes on, or is a file: only its head is compared with the document. */
  open: (t: Assertions, method: string, path: string, body?: unknown) => Promise<void>
  /**
   * A request without any key.
   *
   * @throws when the answer is not as the OpenAPI document says.
   */
  post: (path: string, body: unknown) => Promise<ContractAnswer>
  openapi: OpenApiChecker
}

/** What the walks through the contract work on: one running system, and a client that knows what was tried. */
export interface ContractSystem {
  stack: Stack
  client: ContractClient
}

export interface CallOptions {
  /** Default: the first user's; null sends none. */
  authorization?: string | null
  /** Of a session of the console, in place of a key. */
  cookie?: string
}

export async function createContractClient (stack: Stack): Promise<ContractClient> {
  const document = await (await fetch(`${stack.url}/api/schema`)).json() as OpenApiDocument
  const openapi = createOpenApiChecker(document)

  async function send (
    method: string, path: string, body: unknown, headers: Record<string, string>
  ): Promise<ContractAnswer> {
    const response = await fetch(stack.url + path.replace(/^~/, '/api/projects/1'), {
      method,
      headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
  }

  return {
    openapi,
    async call (t, method, path, body, { authorization = `Bearer ${stack.personalApiKey}`, cookie } = {}) {
      const credentials = cookie !== undefined ? { cookie, 'millrace-console': '1' } : authorization === null ? {} : { authorization }
      const answer = await send(method, path, body, credentials)
      const url = path.replace(/^~/, '/api/projects/1')
      t.equal(openapi.findFault(method, url, answer), undefined, `${method} ${path} ${answer.status} as the document says`)
      return answer
    },
    async open (t, method, path, body) {
      const url = path.replace(/^~/, '/api/projects/1')
      const response = await fetch(stack.url + url, {
        method,
        headers: { authorization: `Bearer ${stack.personalApiKey}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
      await response.body?.cancel()
      const answer = { status: response.status, contentType: response.headers.get('content-type') ?? '' }
      t.equal(openapi.findFaultOfHead(method, url, answer), undefined, `${method} ${path} ${answer.status} as the document says`)
    },
    async post (path, body) {
      const answer = await send('POST', path, body, {})
      const fault = openapi.findFault('POST', path, answer)
      if (fault !== undefined) throw new Error(`POST ${path} ${answer.status} is not as the document says: ${fault}`)
      return answer
    }
  }
}

/** The OpenAPI document of the API, as far as checks read it. */
interface OpenApiDocument {
  openapi: string
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, unknown> }
}

interface Operation {
  parameters?: { name: string, in: string, required?: boolean, schema: Record<string, unknown> }[]
  requestBody?: { content: Record<string, { schema: Record<string, unknown> }> }
  responses: Record<string, { content?: Record<string, unknown> }>
  security?: unknown[]
  summary?: string
}

interface OpenApiChecker {
  document: OpenApiDocument
  /**
   * Compares an answer with what the document says about it.
   *
   * @returns the error, or undefined.
   */
  findFault: (method: string, path: string, answer: { status: number, body: unknown }) => string | undefined
  /** The same for an answer that is not read. */
  findFaultOfHead: (method: string, path: string, answer: { status: number, contentType: string }) => string | undefined
  operation: (method: string, path: string) => Operation | undefined
  /** Operations of which no successful answer was compared so far, such as `GET /api/...`. */
  untried: () => string[]
}

/** Checks answers against an OpenAPI 3.1 document, whose schemas are JSON Schema 2020-12. */
function createOpenApiChecker (document: OpenApiDocument): OpenApiChecker {
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  ;(ajvFormats as unknown as (ajv: Ajv2020) => void)(ajv)
  ajv.addSchema(document, 'openapi')
  const tried = new Set<string>()
  /** By the place of its schema: compiling one takes longer than most requests. */
  const validators = new Map<string, ValidateFunction>()

  function findTemplate (path: string): string | undefined {
    const plain = path.split('?', 1)[0]?.replace(/\/$/, '') ?? ''
    const fitting = Object.keys(document.paths).filter((template) => toPattern(template).test(plain))
    // A literal path wins over one with parameters.
    return fitting.sort((a, b) => a.split('{').length - b.split('{').length)[0]
  }

  return {
    document,
    operation (method, path) {
      return document.paths[findTemplate(path) ?? '']?.[method.toLowerCase()]
    },
    findFault (method, path, { status, body }) {
      const template = findTemplate(path)
      const responses = document.paths[template ?? '']?.[method.toLowerCase()]?.responses
      if (template === undefined || responses === undefined) return `${method} ${path} is not in the document`
      if (status < 300) tried.add(`${method} ${template}`)
      const key = [String(status), `${String(status)[0]}XX`].find((name) => name in responses)
      if (key === undefined) return `${method} ${template} does not document ${status}`
      if (responses[key]?.content === undefined) return body === undefined ? undefined : 'a body where none is documented'
      const parts = ['paths', template, method.toLowerCase(), 'responses', key, 'content', 'application/json', 'schema']
      const pointer = parts.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')
      const validate = validators.get(pointer) ?? ajv.compile({ $ref: `openapi#/${pointer}` })
      validators.set(pointer, validate)
      return validate(body) ? undefined : ajv.errorsText(validate.errors)
    },
    findFaultOfHead (method, path, { status, contentType }) {
      const template = findTemplate(path) ?? ''
      const documented = document.paths[template]?.[method.toLowerCase()]?.responses[String(status)]
      const types = Object.keys(documented?.content ?? {})
      tried.add(`${method} ${template}`)
      return types.some((type) => contentType.startsWith(type)) ? undefined : `${status} ${contentType} is not one of ${types.join(', ')}`
    },
    untried () {
      const operations = Object.entries(document.paths).flatMap(([template, methods]) =>
        Object.keys(methods).map((method) => `${method.toUpperCase()} ${template}`))
      return operations.filter((operation) => !tried.has(operation))
    }
  }
}

function toPattern (template: string): RegExp {
  const segments = template.split('/').map((segment) => segment.startsWith('{') ? '[^/]+' : RegExp.escape(segment))
  return new RegExp(`^${segments.join('/')}$`)
}

/** Puts an event definition into project 1, as if the event had been seen; returns its id. */
export async function insertEvent ({ sql }: Stack, name: string): Promise<string> {
  const [row] = await sql`
    INSERT INTO event_definitions (project_id, name, created_by) VALUES (1, ${name}, 1) RETURNING id`
  return row?.['id']
}

/** Puts a property definition into project 1; of events, unless the columns say otherwise. Returns its id. */
export async function insertProperty ({ sql }: Stack, name: string, columns: object = {}): Promise<string> {
  const row = { project_id: 1, type: 'event', name, ...columns }
  const [inserted] = await sql`INSERT INTO property_definitions ${sql(row)} RETURNING id`
  return inserted?.['id']
}

export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
export const DATE_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** Describes a value in the words of the contract. */
export function typeOf (value: unknown): string {
  if (Number.isInteger(value)) return 'integer'
  if (Array.isArray(value)) return 'array'
  return value === null ? 'null' : typeof value
}

/** The same for every field of an object. */
export function typesOf (fields: object): Record<string, string> {
  return Object.fromEntries(Object.entries(fields).map(([field, value]) => [field, typeOf(value)]))
}
