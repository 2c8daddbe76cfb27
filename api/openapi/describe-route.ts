import { type SwaggerTransform } from '@fastify/swagger'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Parts of the route's schema that are for the OpenAPI document only: they check and write nothing. */
    described?: Record<string, unknown>
  }
}

type Schema = Record<string, unknown>

const ERROR = { description: 'What was wrong, in the field at fault.', $ref: 'Error#' }

const ERROR_WITHOUT_BODY = { type: 'null', description: 'What was wrong is in the header millrace-error, as the code of an Error.' }

const PROJECT_ID = { type: 'string', description: 'Id of the project, or @current for the first one the key opens.' }

/**
 * Adds to the description of a route what all of them share: the key it asks for, the project of its path, and the
 * answers when it fails. Nothing here takes part in serving a request.
 */
export const describeRoute: SwaggerTransform = ({ schema, url, route }) => {
  const described = { ...schema as Schema | undefined, ...route.config?.described }
  if (described.hide === true) return { schema: described, url }
  const scope = route.config?.scope
  if (scope !== undefined) {
    described.security = [{ personalApiKey: [] }]
    described.description = [described.description, `Asks for the scope ${scope}.`].filter(Boolean).join('\n\n')
  }
  if (url.includes(':project_id')) described.params = withProject(described.params as Schema | undefined)
  const error = route.config?.errorsWithoutBody === true ? ERROR_WITHOUT_BODY : ERROR
  described.response = { ...described.response as Schema | undefined, '4xx': error, '5xx': error }
  return { schema: described, url: url.replace(/(.)\/$/, '$1') }
}

function withProject (params: Schema | undefined): Schema {
  const properties = params?.properties as Schema | undefined
  return { type: 'object', ...params, properties: { project_id: PROJECT_ID, ...properties } }
}
