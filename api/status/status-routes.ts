import type { FastifyInstance } from 'fastify'
import { settingsSchema, type ShownSetting } from './describe-settings.ts'
import type { Status } from './status-schema.ts'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { askStream, type NatsOnDemand } from '../events/dead-letters/nats-on-demand.ts'
import { answerInTime } from '../http/errors.ts'
import { accessOf, requireAllProjects } from '../http/personal-key-access.ts'
import { forgetIngest, listIngest, readWatermark } from './ingest-processes.ts'
import { statusSchema, watermarkSchema } from './status-schema.ts'

export interface StatusRoutesDeps {
  /** The status of the whole installation. */
  status: () => Promise<Status>
  /** What every setting is for the API process. */
  settings: () => ShownSetting[]
  clickhouse: ClickHouse
  nats: NatsOnDemand
  /** Epoch milliseconds. */
  now: () => number
}

/** The installation as a whole, for keys of all projects: its status, the settings of the API, the watermark. */
export async function statusRoutes (
  app: FastifyInstance, { status, settings, clickhouse, nats, now }: StatusRoutesDeps
): Promise<void> {
  app.addSchema(statusSchema)
  app.addHook('preValidation', async (request) => { requireAllProjects(accessOf(request)) })

  app.get('/status', {
    config: { scope: 'project:read' },
    schema: {
      tags: ['installation'],
      summary: 'Show the status of the installation',
      description: 'Throughput, backlogs and failures of all parts. Rates cover about a second, so the first answer takes one. For keys of all projects.',
      response: { 200: { $ref: 'Status#' } }
    }
  }, async () => await status())

  app.get('/settings', {
    config: { scope: 'project:read' },
    schema: {
      tags: ['installation'],
      summary: 'List the settings of the API process',
      description: 'Secrets are masked. For keys of all projects.',
      response: { 200: settingsSchema }
    }
  }, async () => ({ results: settings() }))

  app.get('/watermark', {
    config: { scope: 'project:read' },
    schema: {
      tags: ['installation'],
      summary: 'Show the watermark and what it waits for',
      description: 'Every event that was acknowledged and received before complete_through is stored. For keys of all projects.',
      response: { 200: watermarkSchema }
    }
  }, async () => {
    const [watermark, ingest] = await Promise.all([
      answerInTime(readWatermark(clickhouse)),
      // The moment is known without it.
      nats.get().then(listIngest).catch(() => null)
    ])
    return {
      complete_through: watermark?.completeThrough ?? null,
      updated_at: watermark?.updatedAt ?? null,
      held_by: watermark?.heldBy ?? null,
      ingest: ingest?.map(({ id, host, folder, version, publishedThrough, inFlight, spoolBytes, storedAt }) => ({
        id,
        host,
        folder,
        version,
        published_through: publishedThrough === 0 ? null : new Date(publishedThrough),
        in_flight: inFlight,
        spool_bytes: spoolBytes,
        reported_at: new Date(storedAt)
      })) ?? null
    }
  })

  app.delete<{ Params: { id: string } }>('/watermark/ingest/:id', {
    config: { scope: '*' },
    schema: {
      tags: ['installation'],
      summary: 'Stop waiting for a spool folder that is lost',
      description: 'Acknowledged events in it will not be stored, and the watermark passes them. For keys of all projects.',
      params: { type: 'object', properties: { id: { type: 'string', description: 'Of the folder, as the watermark lists it.' } } },
      response: { 204: { type: 'null' } }
    }
  }, async (request, reply) => {
    await askStream(nats, undefined, async (connection) => { await forgetIngest(connection, request.params.id, now()) })
    return await reply.code(204).send()
  })
}
