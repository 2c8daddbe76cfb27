/** The quota of a project and its usage as the API answers them, and in words. */
import type { Answer, Schema } from '../../api-types.ts'
import { formatCount, formatCounted, formatZoned } from '../format.ts'

export type Quota = Schema<'Quota'>
export type Usage = Answer<'/api/projects/{project_id}/usage'>
export type UsageDay = Usage['results'][number]

/** What somebody writes: a share in percent, and empty for no limit. */
export interface QuotaFields { perSecond: string, burst: string, perMonth: string, beyond: Quota['beyond'], samplePercent: string }

/** `500 events a second and 5,000 at once, 20,000,000 a month`. */
export function describeLimits ({ events_per_second: second, burst, events_per_month: month }: Quota): string {
  const limits = [
    second === null ? null : `${formatCounted(second, 'event')} a second and ${formatCount(burst)} at once, by each ingest process`,
    month === null ? null : `${formatCounted(month, 'event')} a calendar month (UTC)`
  ].filter((limit) => limit !== null)
  return limits.length === 0 ? 'none: all events are accepted' : limits.join('; ')
}

/** What becomes of events beyond the quota, and who notices. */
export function describeBeyond ({ beyond, sample_rate: rate }: Pick<Quota, 'beyond' | 'sample_rate'>): string {
  return beyond === 'reject'
    ? 'whole requests are answered with 429; SDKs that do not retry lose their events'
    : `requests are answered with 200; events of ${Number((rate * 100).toPrecision(6))} % of all distinct ids are stored, with the weight ${Number((1 / rate).toPrecision(4))}`
}

/** How far the month is; null: nothing is known of it, or it has no limit. */
export function describeMonth ({ events_per_month: limit, month }: Quota): string | null {
  if (limit === null) return null
  if (month === null) return 'not measured yet: the pipeline does so within 15 seconds'
  const share = Math.floor(month.events / limit * 1000) / 10
  return `${formatCount(month.events)} of ${formatCount(limit)} (${share} %)${month.exceeded ? ', exceeded' : ''}; counted through ${formatZoned(month.counted_through)}`
}

export function fieldsOf (quota: Quota): QuotaFields {
  const text = (value: number | null): string => value === null ? '' : String(value)
  return {
    perSecond: text(quota.events_per_second),
    burst: text(quota.burst),
    perMonth: text(quota.events_per_month),
    beyond: quota.beyond,
    samplePercent: String(Number((quota.sample_rate * 100).toPrecision(6)))
  }
}

/** The field of the form by the field of the API, for an error that names it. */
export const FIELD_NAMES: Record<keyof QuotaFields, string> = {
  perSecond: 'events_per_second', burst: 'burst', perMonth: 'events_per_month', beyond: 'beyond', samplePercent: 'sample_rate'
}

/** What of a quota is to be changed: only fields that were touched, so that a limit a second takes its burst along. */
export function changesOf (before: QuotaFields, now: QuotaFields): Record<string, number | string | null> {
  const changes: Record<string, number | string | null> = {}
  for (const name of Object.keys(FIELD_NAMES) as (keyof QuotaFields)[]) {
    if (now[name] === before[name]) continue
    changes[FIELD_NAMES[name]] = name === 'beyond'
      ? now.beyond
      : now[name].trim() === '' ? null : name === 'samplePercent' ? Number((Number(now[name]) / 100).toPrecision(8)) : Number(now[name])
  }
  return changes
}
