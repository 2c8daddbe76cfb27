import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import { type FastifyInstance } from 'fastify'
import { capturedEventSchema, describeCapturePaths } from './capture-paths.ts'
import { describeRoute } from './describe-route.ts'
import { errorSchema } from './error-schema.ts'

/**
 * Serves the OpenAPI 3.1 document at `/api/schema`, made from the very schemas that check requests and write answers,
 * and a page to browse it at `/docs`, which needs no other host.
 *
 * Register it before the routes that it describes.
 */
export async function describeApi (app: FastifyInstance): Promise<void> {
  app.addSchema(errorSchema)
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Millrace',
        version: '1',
        description: 'Management of a Millrace installation, capture, and the evaluation of feature flags. Every error ' +
          'has the shape of Error; every path is also answered with a trailing slash.'
      },
      paths: describeCapturePaths(),
      components: {
        schemas: { CapturedEvent: capturedEventSchema },
        securitySchemes: {
          personalApiKey: {
            type: 'http', scheme: 'bearer', description: 'A personal API key (phx_...), made with "npx millrace keys create".'
          }
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
