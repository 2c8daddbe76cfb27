import type { FastifyInstance } from 'fastify'
import { settingsSchema, type ShownSetting } from './describe-settings.ts'
import type { Status } from './build-status.ts'
import { accessOf, requireAllProjects } from '../http/personal-key-access.ts'
import { statusSchema } from './status-schema.ts'

export interface StatusRoutesDeps {
  /** The status of the whole installation. */
  status: () => Promise<Status>
  /** What every setting is for the API process. */
  settings: () => ShownSetting[]
}

/** The installation as a whole, for keys of all projects: its status and the settings of the API. */
export async function statusRoutes (app: FastifyInstance, { status, settings }: StatusRoutesDeps): Promise<void> {
  app.addSchema(statusSchema)

  app.get('/status', {
    config: { scope: 'project:read' },
    schema: {
      tags: ['installation'],
      summary: 'Show the status of the installation',
      description: 'Throughput, backlogs and failures of all parts. Rates cover about a second, so the first answer takes one. For keys of all projects.',
      response: { 200: { $ref: 'Status#' } }
    }
  }, async (request) => {
    requireAllProjects(accessOf(request))
    return await status()
  })

  app.get('/settings', {
    config: { scope: 'project:read' },
    schema: {
      tags: ['installation'],
      summary: 'List the settings of the API process',
      description: 'Secrets are masked. For keys of all projects.',
      response: { 200: settingsSchema }
    }
  }, async (request) => {
    requireAllProjects(accessOf(request))
    return { results: settings() }
  })
}
