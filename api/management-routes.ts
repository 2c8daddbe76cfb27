import { type FastifyInstance } from 'fastify'
import { type ApiDeps } from './api-deps.ts'
import { deadLetterRoutes } from './dead-letters/dead-letter-routes.ts'
import { eventDefinitionRoutes } from './event-definitions/event-definition-routes.ts'
import { experimentRoutes } from './experiments/experiment-routes.ts'
import { resultsRoutes } from './experiments/results/results-routes.ts'
import { featureFlagRoutes } from './feature-flags/feature-flag-routes.ts'
import { authenticatePersonalKey } from './http/access/authenticate-personal-key.ts'
import { limitRate } from './http/access/limit-rate.ts'
import { readJsonBodies } from './http/request/read-json-bodies.ts'
import { refuseUnstorableText } from './http/request/refuse-unstorable-text.ts'
import { personRoutes } from './persons/person-routes.ts'
import { propertyDefinitionRoutes } from './property-definitions/property-definition-routes.ts'

/** The private side: every route asks for a personal key, is rate limited by it, and is part of `/api/schema`. */
export async function managementRoutes (app: FastifyInstance, deps: ApiDeps): Promise<void> {
  readJsonBodies(app)
  await app.register(authenticatePersonalKey, deps)
  app.addHook('preValidation', refuseUnstorableText)
  await app.register(limitRate, { maxPerMinute: deps.managementRateLimit })

  await app.register(async (project) => {
    await project.register(deadLetterRoutes, { prefix: '/dead_letters', ...deps })
    await project.register(eventDefinitionRoutes, { prefix: '/event_definitions', ...deps })
    await project.register(experimentRoutes, { prefix: '/experiments', ...deps })
    await project.register(resultsRoutes, { prefix: '/experiments', ...deps })
    await project.register(featureFlagRoutes, { prefix: '/feature_flags', ...deps })
    await project.register(personRoutes, { prefix: '/persons', ...deps })
    await project.register(propertyDefinitionRoutes, { prefix: '/property_definitions', ...deps })
  }, { prefix: '/api/projects/:project_id' })
}
