import type { Schema } from '../../api-types.ts'
import { fieldsOf } from '../../../engines/fields.ts'
import { describeEvent } from '../questions/question-definition.ts'

export type MetricKind = Schema<'MetricResults'>['kind']

export interface MeasuredMetric {
  name: string
  kind: MetricKind
  steps: { event: string | null }[]
  property: string | null
  is_increase_good?: boolean
}

/** `A then B`, `number of A`: what is measured. */
export function describeMetric (filters: Record<string, unknown>): string {
  const metric = fieldsOf(filters.metric ?? filters)
  if (filters.filters !== undefined) return describeMetric(fieldsOf(filters.filters))
  if (metric.kind === 'funnel') return (Array.isArray(metric.steps) ? metric.steps : [metric]).map(nameOf).join(' then ')
  if (metric.kind === 'ratio') return `${nameOf(metric.numerator)} by ${nameOf(metric.denominator)}`
  if (metric.kind === 'retention') return `${nameOf(metric.completion_event)} after ${nameOf(metric.start_event)}`
  if (metric.kind !== undefined) {
    return `${String(metric.kind)} of ${nameOf(metric)}${typeof metric.property === 'string' ? ` by ${metric.property}` : ''}`
  }
  const events: EventOfInsight[] = Array.isArray(filters.events) ? filters.events : []
  if (events.length === 0) return 'nothing yet'
  if (filters.insight === 'FUNNELS') return events.map(nameOf).join(' then ')
  const [first] = events
  return `${first?.math ?? 'total'} of ${nameOf(first)}${first?.math_property === undefined ? '' : ` by ${first.math_property}`}`
}

interface EventOfInsight { id?: unknown, math?: string, math_property?: string }

function nameOf (step: unknown): string {
  if (typeof step === 'string') return step
  const { event, id, where, properties = where } = fieldsOf(step)
  return describeEvent({ event: String(event ?? id ?? '?'), where: Array.isArray(properties) ? properties : [] })
}

/** The secondary metrics of an experiment, in any of the forms that the API takes. */
export function listSecondaryMetrics (value: unknown): unknown[] {
  const { metrics } = fieldsOf(value)
  if (Array.isArray(value)) return value
  if (Array.isArray(metrics)) return metrics
  return Object.entries(Object(value)).map(([name, metric]) => ({ name, ...fieldsOf(metric) }))
}

export function nameOfMetric ({ name, kind, steps, property }: MeasuredMetric): string {
  if (name !== '') return name
  const joint = kind === 'ratio' ? ' by ' : kind === 'retention' ? ' after ' : ' then '
  const events = steps.map(({ event }) => event ?? 'any event').join(joint)
  if (kind === 'ratio' || kind === 'retention') return events
  return kind === 'funnel' ? events : `${kind} of ${events}${property === null ? '' : ` by ${property}`}`
}
