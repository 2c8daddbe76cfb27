/** What `GET /api/status` and `millrace status --json` say of the installation. */
import { nullableObject as nullable, object, string, timeOrNull, type Value } from '../http/json-schema.ts'

const texts = { type: 'array', items: string } as const
const number = { type: 'number' } as const
const health = { type: 'string', enum: ['ok', 'behind', 'degraded', 'down'] } as const

/** Null while it is unknown. */
const figure = (description?: string) => ({ type: ['number', 'null'], ...description === undefined ? {} : { description } } as const)
const counts = (description: string) => ({ type: 'object', additionalProperties: number, description } as const)

const tier = object({
  tier: { type: 'string', enum: ['ingest', 'pipeline', 'api'] },
  url: { ...string, description: 'Empty if the stack is not running.' },
  status: health, stuck: texts, eventLoopP99Ms: figure(), memoryBytes: figure()
})

const ingest = object({
  acceptedPerSecond: figure(), droppedPerSecond: figure(), bytesPerSecond: figure(), accepted: figure('Events since start.'),
  dropped: counts('Events since start by reason.'), publishMs: figure('Mean time to publish a message.'),
  refusedRequests: counts('Capture requests since start that were refused with 4xx, by status.'),
  spoolBytes: figure(), refusedMessages: figure()
})

const pipeline = object({
  storedPerSecond: figure(), stored: figure(), deduplicated: figure(), insertMs: figure(), rowsPerInsert: figure(),
  partitions: {
    type: 'object',
    additionalProperties: object({ pendingMessages: number, pendingBytes: number, lagSeconds: number, healthy: { type: 'boolean' } })
  },
  deadLetters: figure(), deadLetterFill: figure('Of the space for dead letters, from 0 to 1.'), definitionsAgeSeconds: figure(),
  targetsFailing: figure('Enabled targets whose last delivery failed.'), notificationsWaiting: figure()
})

const store = <const Properties extends object>(properties: Properties) =>
  nullable({ version: string, ...properties }, 'Null: it does not answer.')
const stores = object({
  nats: store({}),
  clickhouse: store({ events: number, bytes: number, freeBytes: number }),
  postgres: store({ bytes: number }),
  watermark: nullable({
    completeThrough: { ...string, format: 'date-time' },
    heldBy: { ...string, description: 'Blocking stage; empty if not delayed.' }
  }, 'Up to which time of receipt everything acknowledged is stored; null when unknown.')
})

export const statusSchema = {
  $id: 'Status',
  ...object({
    status: {
      ...health,
      description: 'down: captures are refused or unanswered. degraded: clients are served, but something is stuck or unavailable, or the ledger ' +
        'does not balance. behind: everything works, but something has a backlog.'
    },
    clients: object({
      captures: {
        type: 'string', enum: ['answered', 'spooled', 'refused', 'no answer'],
        description: "spooled: acknowledged from ingest's disk; refused: some requests got 503 between the two readings."
      },
      flags: { type: 'string', enum: ['answered', 'no answer'] }
    }),
    stuck: { ...texts, description: 'As "<tier>: <part>", in event-flow order.' },
    behind: { type: 'array', items: object({ part: string, lagSeconds: number }), description: 'Parts with a backlog, oldest first.' },
    time: { ...string, format: 'date-time' },
    version: { ...string, description: 'Versions of all processes; several during an upgrade.' },
    tiers: { type: 'array', items: tier },
    ingest,
    streams: { type: 'object', additionalProperties: object({ messages: number, bytes: number, maxBytes: number, oldestSeconds: number }) },
    pipeline,
    books: nullable({ missing: number, extra: number, ageSeconds: number },
      'Difference in events between the events table and the ledger over the last three hours; null if no process compares them.'),
    backup: object({
      ageSeconds: figure('Of the last complete one.'), durationSeconds: figure(), intervalSeconds: figure('0: none are scheduled.'),
      failed: { type: 'boolean' }, lastError: { type: ['string', 'null'] }, lastWarning: { type: ['string', 'null'] }
    }),
    exports: object({ lagSeconds: figure('Age of the oldest window that an export has not written; null: there are no exports.') }),
    api: object({ requestsPerSecond: figure(), flagEvaluationsPerSecond: figure(), requestMs: figure() }),
    stores,
    powerCuts: { type: ['string', 'null'], description: 'Reason why a power cut may lose data; null while no process reports one.' }
  }, { description: 'Rates are per second. A figure is null when unknown; a mean is also null without samples.' })
}

export type Status = Value<typeof statusSchema>

export const watermarkSchema = object({
  complete_through: { ...timeOrNull, description: 'Null while unknown.' },
  updated_at: timeOrNull,
  held_by: { type: ['string', 'null'], description: 'Blocking stage; empty if the watermark lags by at most a few seconds.' },
  ingest: {
    type: ['array', 'null'],
    description: 'Spool folders that the watermark waits for, including those of stopped processes, furthest behind first; null if NATS does not answer.',
    items: object({
      id: string, host: string, folder: string, version: string, published_through: timeOrNull, in_flight: number,
      spool_bytes: number, reported_at: timeOrNull
    })
  }
})
