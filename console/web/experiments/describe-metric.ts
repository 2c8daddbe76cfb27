/** What an experiment measures, in words. */
import { fieldsOf } from '../../../engines/fields.ts'

export type MetricKind = 'funnel' | 'count' | 'sum' | 'mean'

/** A metric as the API understood it. */
export interface MeasuredMetric {
  name: string
  kind: MetricKind
  steps: { event: string | null }[]
  property: string | null
}

/** `A then B`, `number of A`: what is measured. */
export function describeMetric (filters: Record<string, unknown>): string {
  const metric = fieldsOf(filters.metric)
  if (metric.kind === 'funnel') return (Array.isArray(metric.steps) ? metric.steps : []).map(nameOf).join(' then ')
  if (metric.kind !== undefined) {
    return `${String(metric.kind)} of ${nameOf(metric.event)}${typeof metric.property === 'string' ? ` by ${metric.property}` : ''}`
  }
  const events: EventOfInsight[] = Array.isArray(filters.events) ? filters.events : []
  if (events.length === 0) return 'nothing yet'
  if (filters.insight === 'FUNNELS') return events.map(({ id }) => nameOf(id)).join(' then ')
  const [first] = events
  return `${first?.math ?? 'total'} of ${nameOf(first?.id)}${first?.math_property === undefined ? '' : ` by ${first.math_property}`}`
}

interface EventOfInsight { id?: unknown, math?: string, math_property?: string }

function nameOf (step: unknown): string {
  if (typeof step === 'string') return step
  const { event, id } = fieldsOf(step)
  return String(event ?? id ?? '?')
}

/** How many secondary metrics an experiment has, in any of the forms that the API takes. */
export function countSecondaryMetrics (value: unknown): number {
  const { metrics } = fieldsOf(value)
  if (Array.isArray(value)) return value.length
  return Array.isArray(metrics) ? metrics.length : Object.keys(Object(value)).length
}

/** The name of a metric, or what it measures when it has none. */
export function nameOfMetric ({ name, kind, steps, property }: MeasuredMetric): string {
  if (name !== '') return name
  const events = steps.map(({ event }) => event ?? 'any event').join(' then ')
  return kind === 'funnel' ? events : `${kind} of ${events}${property === null ? '' : ` by ${property}`}`
}
