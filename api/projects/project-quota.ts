import { invalidField } from '../../engines/errors.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import {
  type ActiveQuota, BEYOND, BURST_SECONDS, monthOf, type ProjectQuota, QUOTA_COLUMNS, QUOTAS
} from '../../schema/project-quotas.ts'
import { array, count, object, time, toSnakeCase, type Value } from '../http/json-schema.ts'

/** Largest and smallest values; the table checks the same. */
const QUOTA_LIMITS = {
  eventsPerSecond: 10_000_000,
  burst: 1_000_000_000,
  eventsPerMonth: 1_000_000_000_000_000,
  minSampleRate: 0.0001
} as const

/** Share of all distinct ids that is stored beyond a quota, unless the project says another one. */
const DEFAULT_SAMPLE_RATE = 0.1

const writable = {
  events_per_second: {
    type: ['integer', 'null'], minimum: 1, maximum: QUOTA_LIMITS.eventsPerSecond, description: 'Events per second per ingest process; null: no limit.'
  },
  burst: {
    type: ['integer', 'null'],
    minimum: 1,
    maximum: QUOTA_LIMITS.burst,
    description: `Burst size in events; null: ${BURST_SECONDS} seconds' worth.`
  },
  events_per_month: {
    type: ['integer', 'null'], minimum: 1, maximum: QUOTA_LIMITS.eventsPerMonth, description: 'Events received per calendar month (UTC), across all processes; null: no limit.'
  },
  beyond: {
    type: 'string', enum: BEYOND, description: 'reject: requests beyond the quota get 429. sample: only events of a sample of distinct ids are stored.'
  },
  sample_rate: {
    type: 'number', minimum: QUOTA_LIMITS.minSampleRate, exclusiveMaximum: 1, description: 'Share of distinct ids to store. Each stored event has the weight 1 / sample_rate.'
  }
} as const

const monthSchema = object({
  begin: { ...time, description: 'Start of the calendar month, UTC.' },
  events: { type: 'integer', description: 'Stored events received this month.' },
  counted_through: { ...time, description: 'All events received before this time are counted.' },
  exceeded: { type: 'boolean' }
}, { type: ['object', 'null'], description: 'Usage counted against the monthly limit; null: not measured yet, or no monthly limit.' })

const properties = {
  ...writable,
  updated_at: { type: ['string', 'null'], format: 'date-time', description: 'Null: the project has no quota.' },
  month: monthSchema
} as const

export const quotaSchema = object(properties, { $id: 'Quota' })

export const quotaChangesSchema = { type: 'object', additionalProperties: false, properties: writable } as const

export type QuotaChanges = Value<typeof quotaChangesSchema>

const NONE: ProjectQuota = {
  eventsPerSecond: null, burst: null, eventsPerMonth: null, beyond: 'reject', sampleRate: DEFAULT_SAMPLE_RATE
}

/** @param quota  Undefined: the project has none. */
export function describeQuota (quota: StoredQuota | undefined, now: number): Record<string, unknown> {
  const { eventsPerSecond, burst, eventsPerMonth, beyond, sampleRate } = quota ?? NONE
  return {
    ...toSnakeCase({ eventsPerSecond, burst, eventsPerMonth, beyond, sampleRate }),
    updated_at: quota?.updatedAt ?? null,
    month: quota === undefined ? null : describeMonth(quota, now)
  }
}

function describeMonth ({ eventsPerMonth, usage }: StoredQuota, now: number): Record<string, unknown> | null {
  if (eventsPerMonth === null || usage === null || usage.monthBegin !== monthOf(now)) return null
  return {
    begin: new Date(usage.monthBegin),
    events: usage.events,
    counted_through: new Date(usage.countedThrough),
    exceeded: usage.events >= eventsPerMonth
  }
}

/**
 * The quota with some fields changed. A limit a second that changes takes its burst along, unless the burst is named.
 *
 * @returns null when no limit is left.
 * @throws {HttpError} 400 for a burst without a limit a second, and for what becomes of events beyond no limit.
 */
export function changeQuota (quota: ProjectQuota | undefined, changes: QuotaChanges): ProjectQuota | null {
  const before = quota ?? NONE
  const eventsPerSecond = changes.events_per_second === undefined ? before.eventsPerSecond : changes.events_per_second
  const eventsPerMonth = changes.events_per_month === undefined ? before.eventsPerMonth : changes.events_per_month
  if (eventsPerSecond === null && typeof changes.burst === 'number') {
    throw invalidField('burst', 'burst needs events_per_second.')
  }
  if (eventsPerSecond === null && eventsPerMonth === null) {
    refuseWithoutLimit('beyond', changes.beyond, [before.beyond, NONE.beyond])
    refuseWithoutLimit('sample_rate', changes.sample_rate, [before.sampleRate, NONE.sampleRate])
    return null
  }
  const keepsBurst = changes.burst === undefined && eventsPerSecond === before.eventsPerSecond
  return {
    eventsPerSecond,
    burst: keepsBurst
      ? before.burst
      : eventsPerSecond === null ? null : changes.burst ?? eventsPerSecond * BURST_SECONDS,
    eventsPerMonth,
    beyond: changes.beyond ?? before.beyond,
    sampleRate: changes.sample_rate ?? before.sampleRate
  }
}

/** A quota without a limit is not stored: what a change says of it would be lost. What was answered is accepted. */
function refuseWithoutLimit<T> (field: keyof QuotaChanges, sent: T | undefined, accepted: readonly T[]): void {
  if (sent === undefined || accepted.includes(sent)) return
  throw invalidField(field, `${field} needs events_per_second or events_per_month.`)
}

/** A quota as it is shown: with the time of its last change. */
export interface StoredQuota extends ActiveQuota {
  updatedAt: Date
}

/** Undefined: the project has none. */
export async function readQuota (sql: Sql | TransactionSql, projectId: number): Promise<StoredQuota | undefined> {
  const [quota] = await sql<StoredQuota[]>`
    SELECT ${sql.unsafe(QUOTA_COLUMNS)}, q.updated_at AS "updatedAt"
    FROM ${sql.unsafe(QUOTAS)} WHERE q.project_id = ${projectId}`
  return quota
}

/** Sets or replaces the quota of a project. Every ingest process has it within a second. */
export async function setQuota (sql: Sql | TransactionSql, projectId: number, quota: ProjectQuota): Promise<void> {
  const { eventsPerSecond, burst, eventsPerMonth, beyond, sampleRate } = quota
  await sql`
    INSERT INTO project_quotas (project_id, events_per_second, burst, events_per_month, beyond, sample_rate)
    VALUES (${projectId}, ${eventsPerSecond}, ${burst}, ${eventsPerMonth}, ${beyond}, ${sampleRate})
    ON CONFLICT (project_id) DO UPDATE SET events_per_second = excluded.events_per_second, burst = excluded.burst,
      events_per_month = excluded.events_per_month, beyond = excluded.beyond, sample_rate = excluded.sample_rate,
      updated_at = now()`
}

export async function clearQuota (sql: Sql | TransactionSql, projectId: number): Promise<void> {
  await sql`DELETE FROM project_quotas WHERE project_id = ${projectId}`
}

const daySchema = object({
  day: { type: 'string', format: 'date', description: 'Day of receipt, UTC.' },
  events: count('Distinct events stored, including those deleted later. Monthly quotas apply to this count.'),
  duplicates: count('Events not stored again, because they were stored before.'),
  dead_lettered: count('Events dead-lettered.'),
  dropped: count('Events answered with 200 and not stored, for any reason. Kept for 90 days.'),
  quota_sampled: count('Dropped events beyond the quota and outside its sample.'),
  refused_requests: count('Requests (not events) answered with 429. Kept for 90 days.')
})

export type UsageDay = Value<typeof daySchema>

export const usageSchema = object({
  from: { type: 'string', format: 'date', description: 'The first day, UTC.' },
  to: { type: 'string', format: 'date', description: 'The last day.' },
  events: count('Sum over all days.'),
  results: array(daySchema, { description: 'Every day, newest first.' })
})
