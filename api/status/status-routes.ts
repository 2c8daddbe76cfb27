import { Kvm } from '@nats-io/kv'
import type { FastifyInstance } from 'fastify'
import { HttpError } from '../../engines/errors.ts'
import { type ClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import type { NatsConnection } from '../../platform/nats/connect-nats.ts'
import { readBucket } from '../../platform/nats/stream-info.ts'
import { INGEST_BUCKET, type IngestPresence, presenceKey } from '../../schema/wire/ingest-presence.ts'
import { askStream, type NatsOnDemand } from '../events/dead-letters/nats-on-demand.ts'
import { answerInTime, orNotFound } from '../http/answer-errors.ts'
import { optional, toSnakeCase } from '../http/json-schema.ts'
import { accessOf, requireAllProjects } from '../http/personal-key-access.ts'
import { routesOf } from '../http/routes.ts'
import { type Status, statusSchema, watermarkSchema } from './status-schema.ts'

export interface StatusRoutesDeps {
  /** The status of the whole installation. */
  status: () => Promise<Status>
  clickhouse: ClickHouse
  nats: NatsOnDemand
  /** Epoch milliseconds. */
  now: () => number
}

/** The installation as a whole, for keys of all projects: its status, the watermark. */
export async function statusRoutes (
  app: FastifyInstance, { status, clickhouse, nats, now }: StatusRoutesDeps
): Promise<void> {
  const routes = routesOf(app, { tag: 'installation', object: 'project' })
  app.addSchema(statusSchema)
  app.addHook('preValidation', async (request) => { requireAllProjects(accessOf(request)) })

  routes.get('/status', {
    summary: 'Show the status of the installation', answer: { $ref: 'Status#' },
    description: 'Throughput, backlogs and failures of all parts. The first answer takes a second, to measure rates. Requires a key for all projects.'
  }, status)

  routes.get('/watermark', {
    summary: 'Show the watermark and the stage that delays it', answer: watermarkSchema,
    description: 'Every acknowledged event received before complete_through is stored. Requires a key for all projects.'
  }, async () => {
    const [[watermark], ingest] = await Promise.all([
      answerInTime(queryRows<{ through: number, updated: number, held_by: string }>(clickhouse, READ_WATERMARK)),
      // The moment is known without it.
      nats.get().then(listIngest).catch(() => null)
    ])
    return {
      complete_through: watermark === undefined ? null : new Date(watermark.through),
      updated_at: watermark === undefined ? null : new Date(watermark.updated),
      held_by: watermark?.held_by ?? null,
      ingest: ingest?.map(({ id, host, folder, version, inFlight, spoolBytes, ...at }) => ({
        ...toSnakeCase({ id, host, folder, version, inFlight, spoolBytes }),
        published_through: at.publishedThrough === 0 ? null : new Date(at.publishedThrough),
        reported_at: new Date(at.storedAt)
      })) ?? null
    }
  })

  routes.delete('/watermark/ingest/:id', {
    scope: '*', summary: 'Stop waiting for a lost spool folder',
    description: 'Acknowledged events in it will never be stored, and the watermark advances past them. Requires a key for all projects.',
    params: optional({ id: { type: 'string', description: 'Id of the folder, as listed by the watermark.' } })
  }, async ({ params: { id } }) => {
    await askStream(nats, undefined, async (connection) => { await forgetIngest(connection, id, now()) })
  })
}

/** Of all projects. */
const READ_WATERMARK = `
  SELECT toFloat64(toUnixTimestamp64Milli(complete_through)) AS through,
    toFloat64(toUnixTimestamp64Milli(updated_at)) AS updated, held_by
  FROM watermarks WHERE project_id = 0`

/** A spool folder that the watermark waits for. */
interface KnownIngest extends IngestPresence {
  /** Of the folder. */
  id: string
  /** When NATS stored its entry, epoch milliseconds. */
  storedAt: number
}

/** Lists every spool folder that has an entry, whether its process runs or not. @throws when NATS is unavailable. */
async function listIngest (connection: NatsConnection): Promise<KnownIngest[]> {
  const prefix = presenceKey('')
  const found = (await readBucket<IngestPresence>(connection, INGEST_BUCKET, prefix))
    .map(({ key, value, storedAt }) => ({ ...value, id: key.slice(prefix.length), storedAt }))
  return found.sort((one, other) => one.publishedThrough - other.publishedThrough)
}

/** An entry younger than this, in milliseconds, belongs to a process that runs: it renews it every four seconds. */
const ALIVE_MS = 10_000

/**
 * Removes the entry of a spool folder that is lost: the watermark no longer waits for what was in it.
 *
 * @param now  Epoch milliseconds.
 * @throws {HttpError} 404 `not_found`, 409 `ingest_alive`; or what NATS says.
 */
async function forgetIngest (connection: NatsConnection, id: string, now: number): Promise<void> {
  const known = orNotFound((await listIngest(connection)).find((each) => each.id === id))
  if (now - known.storedAt < ALIVE_MS) {
    throw new HttpError(409, 'invalid_request', 'ingest_alive', `Ingest ${id} on ${known.host} is running: stop it instead.`)
  }
  await (await new Kvm(connection).open(INGEST_BUCKET)).delete(presenceKey(id))
}
