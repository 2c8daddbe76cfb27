import ajvFormats from 'ajv-formats'
import { Ajv2020 } from 'ajv/dist/2020.js'

/** The OpenAPI document of the API, as far as checks read it. */
export interface OpenApiDocument {
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

export interface OpenApiChecker {
  document: OpenApiDocument
  /**
   * Compares an answer with what the document says about it.
   *
   * @returns what is wrong, or undefined.
   */
  findFault: (method: string, path: string, answer: { status: number, body: unknown }) => string | undefined
  operation: (method: string, path: string) => Operation | undefined
  /** Operations of which no successful answer was compared so far, such as `GET /api/...`. */
  untried: () => string[]
}

/** Checks answers against an OpenAPI 3.1 document, whose schemas are JSON Schema 2020-12. */
export function createOpenApiChecker (document: OpenApiDocument): OpenApiChecker {
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  ;(ajvFormats as unknown as (ajv: Ajv2020) => void)(ajv)
  ajv.addSchema(document, 'openapi')
  const tried = new Set<string>()

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
      const validate = ajv.compile({ $ref: `openapi#/${pointer}` })
      return validate(body) ? undefined : ajv.errorsText(validate.errors)
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
