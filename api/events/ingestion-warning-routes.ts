import type { FastifyInstance } from 'fastify'
import type { ClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { forbidden } from '../../engines/errors.ts'
import { askRows } from '../http/describe-clickhouse-error.ts'
import { array, object, optional, string, time } from '../http/json-schema.ts'
import { INGESTION_WARNINGS, NO_PROJECT, type WarningEffect, type WarningReason } from '../../schema/wire/ingestion-warnings.ts'
import { routesOf } from '../http/routes.ts'

const effects = [...new Set(Object.values(INGESTION_WARNINGS))]
const sampleSchema = object({
  received_at: time,
  event: { ...string, description: 'Event name. All fields are empty if unknown.' },
  distinct_id: string,
  uuid: { ...string, description: 'UUID as sent.' },
  lib: { ...string, description: 'SDK.' },
  lib_version: string,
  value: { ...string, description: 'The value at fault, at most 200 characters.' }
})

const MINUTES = 60

const summarySchema = object({
  from: { ...time, description: 'Start of the first counted minute.' },
  results: array(object({
    reason: { type: 'string', enum: Object.keys(INGESTION_WARNINGS) },
    effect: { type: 'string', enum: effects },
    count: { type: 'integer', description: 'Number of events; of requests for rate_limited, quota_exceeded, wrong_key, body_too_large, body_unreadable and unknown_path; of changes for properties_too_large, update_refused and too_many_group_types.' },
    first_minute: time,
    last_minute: time,
    by_minute: { type: 'array', items: { type: 'integer' }, description: `Counts of the last ${MINUTES} minutes, the current one last.` },
    samples: { type: 'array', items: sampleSchema, description: 'Samples from the latest minute with warnings, at most five.' }
  }))
})

const summaryQuerySchema = optional({
  hours: { type: 'integer', minimum: 1, maximum: 720, default: 24, description: 'How many past hours to count.' },
  unassigned: { type: 'boolean', default: false, description: 'Also requests that belong to no project, such as those with a wrong key; for keys of all projects.' }
})

const MAX_SECONDS = 30

/** What of a project was not stored as it was sent. */
export async function ingestionWarningRoutes (
  app: FastifyInstance, deps: { clickhouse: ClickHouse, now: () => number }
): Promise<void> {
  routesOf(app, { tag: 'events', object: 'event' }).get('/summary', {
    summary: 'Count ingestion warnings by reason',
    description: 'Everything dropped, changed or refused, most frequent first, with counts per minute of the last hour and samples. The table ingestion_warnings in ClickHouse has all minutes.',
    query: summaryQuerySchema, answer: summarySchema
  }, async ({ query: { hours, unassigned } }, { projectId, maySql }) => {
    const minute = Math.floor(deps.now() / 60_000) * 60
    const from = minute - hours * 3600
    if (unassigned && !maySql) throw forbidden('Requests without a project need the right to read persons of all projects.')
    const projects = unassigned ? [projectId, NO_PROJECT] : [projectId]
    const results = await readSummary(deps.clickhouse, { projects, from, hour: minute - (MINUTES - 1) * 60 })
    return { from: new Date(from * 1000).toISOString(), results }
  })
}

interface SummaryRow {
  reason: WarningReason
  effect: WarningEffect
  count: number
  samples: (Record<string, unknown> & { received_at: string })[]
  first: number
  last: number
  recent: [minute: number, count: number][]
}

/** @param options  Epoch seconds: `from` when to begin, `hour` where `by_minute` begins. */
async function readSummary (
  clickhouse: ClickHouse, options: { projects: number[], from: number, hour: number }
): Promise<object[]> {
  const rows = await askRows<SummaryRow>(clickhouse, `
    SELECT reason, any(effect) AS effect, toFloat64(sum(w.count)) AS count, toUnixTimestamp(min(minute)) AS first,
      toUnixTimestamp(max(minute)) AS last, argMaxIf(w.samples, minute, notEmpty(w.samples)) AS samples,
      groupArrayIf((toUnixTimestamp(minute), toUInt32(w.count)), minute >= toDateTime({hour: UInt32})) AS recent
    FROM ingestion_warnings AS w WHERE project_id IN {projects: Array(UInt32)} AND minute >= toDateTime({from: UInt32})
    GROUP BY reason ORDER BY count DESC, reason
    SETTINGS max_execution_time = ${MAX_SECONDS}`, options)
  return rows.map(({ reason, effect, count, first, last, recent, samples }) => {
    const byMinute = Array.from({ length: MINUTES }, () => 0)
    for (const [minute, events] of recent) {
      const index = (minute - options.hour) / 60
      if (index >= 0 && index < MINUTES) byMinute[index] = (byMinute[index] ?? 0) + events
    }
    const shown = samples.map((sample) => ({ ...sample, received_at: `${sample.received_at.replace(' ', 'T')}Z` }))
    const iso = (seconds: number): string => new Date(seconds * 1000).toISOString()
    const minutes = { first_minute: iso(first), last_minute: iso(last), by_minute: byMinute }
    return { reason, effect, count, ...minutes, samples: shown }
  })
}
