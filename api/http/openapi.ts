import swagger, { type SwaggerTransform } from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import type { FastifyInstance } from 'fastify'
import { object, partial } from './json-schema.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Parts of the route's schema for the OpenAPI document only: they neither validate nor serialise. */
    described?: Record<string, unknown>
  }
}

/**
 * Serves the OpenAPI 3.1 document at `/api/schema`, generated from the schemas that validate requests and serialise
 * answers, and a page to browse it at `/docs`, which loads nothing from other hosts.
 *
 * Register it before the routes.
 */
export async function describeApi (app: FastifyInstance): Promise<void> {
  app.addSchema(errorSchema)
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Millrace',
        version: '1',
        license: { name: 'MIT', identifier: 'MIT' },
        description: 'Management of a Millrace installation, capture, and the evaluation of feature flags. Every error ' +
          'has the schema Error; every path also works with a trailing slash.'
      },
      // Relative: the document is read from the installation that it describes.
      servers: [{ url: '/', description: 'This installation.' }],
      paths: describeCapturePaths(),
      components: {
        schemas: { CapturedEvent: capturedEventSchema },
        securitySchemes: {
          personalApiKey: {
            type: 'http', scheme: 'bearer', description: 'A personal API key (phx_...), made with "npx millrace keys create".'
          },
          boardLink: { type: 'http', scheme: 'bearer', description: 'The key of a link to a board (phl_...).' }
        }
      }
    },
    refResolver: {
      buildLocalReference: (json, baseUri, fragment, index) => typeof json.$id === 'string' ? json.$id : `def-${index}`
    },
    transform: describeRoute
  })
  await app.register(swaggerUi, { routePrefix: '/docs', uiConfig: { docExpansion: 'list', tryItOutEnabled: true } })

  app.get('/api/schema', { schema: { hide: true } }, async () => app.swagger())
}

type Schema = Record<string, unknown>

const ERROR = { description: 'Error, with the invalid field.', $ref: 'Error#' }

const ERROR_WITHOUT_BODY = { type: 'null', description: 'No body; the header millrace-error has the error code.' }

const PROJECT_ID = { type: 'string', description: 'Id of the project, or @current for the first project the key has access to.' }

/**
 * Adds to the description of a route what all routes have in common: the personal key, the project of the path, and
 * the errors. It is not used to serve requests.
 */
const describeRoute: SwaggerTransform = ({ schema, url, route }) => {
  const described = { ...schema as Schema | undefined, ...route.config?.described }
  if (described.hide === true) return { schema: described, url }
  described.operationId ??= nameOperation(route.method, url)
  const scope = route.config?.scope
  if (scope === undefined) {
    // An empty list says that no header is needed; SDKs have their key in the body.
    described.security ??= []
  } else {
    described.security = [{ personalApiKey: [] }]
    described.description = [described.description, `Requires the scope ${scope}.`].filter(Boolean).join('\n\n')
  }
  if (url.includes(':project_id')) described.params = withProject(described.params as Schema | undefined)
  if (described.body !== undefined) described.body = inLaterDraft(described.body)
  const error = route.config?.errorsWithoutBody === true ? ERROR_WITHOUT_BODY : ERROR
  described.response = { ...described.response as Schema | undefined, '4xx': error, '5xx': error }
  return { schema: described, url: url.replace(/(.)\/$/, '$1') }
}

/** The validators read draft 7 of JSON Schema; OpenAPI 3.1 has draft 2020-12, which calls `dependencies` otherwise. */
function inLaterDraft (body: unknown): unknown {
  return JSON.parse(JSON.stringify(body), (_, value: Schema | null) => {
    if (typeof value?.dependencies !== 'object' || value.type === undefined) return value
    const { dependencies, ...others } = value
    return { ...others, dependentRequired: dependencies }
  })
}

/** For the methods of generated clients: `get /api/projects/:project_id/keys/` is `getProjectsByProjectIdKeys`. */
function nameOperation (method: string | string[], url: string): string {
  const words = url.replace(/^\/api\//, '/').split(/[^A-Za-z0-9_:]+/).filter((word) => word !== '')
    .flatMap((word) => word.startsWith(':') ? ['by', ...word.slice(1).split('_')] : word.split('_'))
  return [String(method).toLowerCase(), ...words.map((word) => word.charAt(0).toUpperCase() + word.slice(1))].join('')
}

function withProject (params: Schema | undefined): Schema {
  const properties = params?.properties as Schema | undefined
  return { type: 'object', ...params, properties: { project_id: PROJECT_ID, ...properties } }
}

/**
 * The capture endpoints (docs/reference/contract/service.md 2.6, 4.4, 4.5). The ingest tier serves them at the same
 * origin, so they are described here by hand.
 */
function describeCapturePaths (): Record<string, object> {
  return {
    '/capture': describePath('Capture an event', { $ref: '#/components/schemas/CapturedEvent' }),
    '/batch': describePath('Capture a batch of events', partial({
      api_key: API_KEY,
      batch: { type: 'array', items: { $ref: '#/components/schemas/CapturedEvent' } },
      sent_at: { type: 'string', description: "Time of sending by the client's clock, used to correct timestamps." },
      historical_migration: { type: 'boolean', description: 'true: an import; its events are processed apart from live ones, so that they do not delay them.' }
    }, 'api_key', 'batch'))
  }
}

const API_KEY = { type: 'string' as const, description: 'Project API key. A personal API key needs the scope event:write, and project_id.' }
const PERSON_PROPERTIES = { type: 'object' as const, additionalProperties: true }

const capturedEventSchema = {
  type: 'object' as const,
  description: 'An event without a name, or without a distinct_id at top level or in properties, is dropped; the answer is still 200.',
  required: ['event'],
  properties: {
    api_key: { ...API_KEY, description: `${API_KEY.description} In a batch, beside batch.` },
    event: { type: 'string' as const, description: 'Name of the event.' },
    distinct_id: { type: 'string' as const, description: 'Id of the user; here or in properties.' },
    properties: { type: 'object' as const, additionalProperties: true },
    timestamp: { type: 'string' as const, description: 'Time of the event, ISO 8601; default: the time of receipt.' },
    uuid: { type: 'string' as const, format: 'uuid', description: 'Id of the event. An event sent again with the same uuid, name and distinct_id counts once.' },
    $set: PERSON_PROPERTIES,
    $set_once: PERSON_PROPERTIES
  }
}

const CAPTURE_ERROR = { description: 'Error.', content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } } }

function describePath (summary: string, body: object): object {
  return {
    post: {
      operationId: `capture${summary.endsWith('batch of events') ? 'Batch' : 'Event'}`,
      tags: ['capture'],
      security: [],
      summary,
      description: 'Events answered with 200 are never lost and never counted twice. Bodies may be compressed ' +
        '(gzip, deflate, br, zstd, lz64) or encoded as base64, and must be smaller than 20 MB on the wire.',
      requestBody: { required: true, content: { 'application/json': { schema: body } } },
      responses: {
        200: {
          description: 'Every event that was not dropped is stored durably.',
          content: {
            'application/json': {
              schema: object({ status: { type: 'integer', const: 1 } }, { additionalProperties: false })
            }
          }
        },
        '4XX': CAPTURE_ERROR,
        '5XX': CAPTURE_ERROR
      }
    }
  }
}

/** Body of every error answer (docs/reference/contract/service.md 7). */
const errorSchema = object({
  type: {
    type: 'string',
    enum: ['validation_error', 'authentication_error', 'invalid_request', 'throttled_error', 'server_error']
  },
  code: { type: 'string', description: 'Machine-readable error code.' },
  detail: { type: 'string', description: 'Human-readable message.' },
  attr: { type: ['string', 'null'], description: 'The invalid field; names of nested fields are joined by two underscores.' }
}, { $id: 'Error' })
