/** The quota of a project and its usage as the API answers them, and in words. */
import type { Answer, Schema } from '../../api-types.ts'
import { formatCount, formatCounted, formatZoned } from '../format.ts'

export type Quota = Schema<'Quota'>
export type Usage = Answer<'/api/projects/{project_id}/usage'>
export type UsageDay = Usage['results'][number]

/** What somebody writes: `sample_rate` in percent, and empty for no limit. */
export type QuotaFields = Record<'events_per_second' | 'burst' | 'events_per_month' | 'sample_rate', string> & Pick<Quota, 'beyond'>

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
    events_per_second: text(quota.events_per_second),
    burst: text(quota.burst),
    events_per_month: text(quota.events_per_month),
    beyond: quota.beyond,
    sample_rate: String(Number((quota.sample_rate * 100).toPrecision(6)))
  }
}

/** What of a quota is to be changed: only fields that were touched, so that a limit a second takes its burst along. */
export function changesOf (before: QuotaFields, now: QuotaFields): Record<string, number | string | null> {
  const touched = Object.entries(now).filter(([name, text]) => text !== before[name as keyof QuotaFields])
  return Object.fromEntries(touched.map(([name, text]) => {
    if (name === 'beyond') return [name, text]
    if (text.trim() === '') return [name, null]
    return [name, name === 'sample_rate' ? Number((Number(text) / 100).toPrecision(8)) : Number(text)]
  }))
}
