import type { FastifyInstance } from 'fastify'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { describeClickHouseError } from '../../http/describe-clickhouse-error.ts'
import { linkWith } from '../../http/pagination.ts'
import { accessOf } from '../../http/personal-key-access.ts'
import { readWatermark } from '../../status/status-routes.ts'
import { type EventListQuery, eventListQuerySchema, eventPageSchema, listedEventSchema, listEvents } from './event-list.ts'

/** The stored events of a project. */
export async function eventListRoutes (
  app: FastifyInstance, { clickhouse, publicUrl }: { clickhouse: ClickHouse, publicUrl: string }
): Promise<void> {
  app.addSchema(listedEventSchema)
  app.get<{ Querystring: EventListQuery }>('/events', {
    config: { scope: 'event:read' },
    schema: {
      tags: ['events'],
      summary: 'List stored events',
      description: 'Newest first by event time, each event once. Without properties, which `/events/<uuid>` has.',
      querystring: eventListQuerySchema,
      response: { 200: eventPageSchema }
    }
  }, async (request) => {
    const { projectId } = accessOf(request)
    try {
      // Before the events: whatever it covers is among them.
      const watermark = await readWatermark(clickhouse)
      const { results, after, searchedFrom } = await listEvents(clickhouse, projectId, request.query)
      return {
        results,
        next: after === undefined ? null : linkWith(request, publicUrl, { after }),
        searched_from: searchedFrom === null ? null : new Date(searchedFrom),
        complete_through: watermark?.completeThrough ?? null
      }
    } catch (error) {
      throw describeClickHouseError(error, 'which has the events')
    }
  })
}
