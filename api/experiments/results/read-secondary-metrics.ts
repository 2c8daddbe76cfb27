import { invalidExperiment } from '../experiment-errors.ts'
import { type Metric } from './metric.ts'
import { readMetric } from './read-metric.ts'

/**
 * The secondary metrics of an experiment: an array, `{ metrics: [...] }`, or an object of metrics by name. Each is a
 * metric in either form, or holds one under `filters`.
 *
 * @throws {HttpError} 400 naming the field that cannot be understood.
 */
export function readSecondaryMetrics (value: unknown): Metric[] {
  return listEntries(value).map(([path, name, entry]) => {
    const { filters, name: ownName = name } = Object(entry) as { filters?: unknown, name?: unknown }
    const metric = filters === undefined ? readMetric(path, entry) : readMetric(`${path}__filters`, filters)
    if (metric === undefined) throw invalidExperiment(path, 'A secondary metric must name its events.')
    return { ...metric, name: typeof ownName === 'string' ? ownName : metric.name }
  })
}

function listEntries (value: unknown): [path: string, name: string, entry: unknown][] {
  const { metrics } = Object(value) as { metrics?: unknown }
  if (Array.isArray(value)) return value.map((entry, index) => [`secondary_metrics__${index}`, '', entry])
  if (Array.isArray(metrics)) return metrics.map((entry, index) => [`secondary_metrics__metrics__${index}`, '', entry])
  return Object.entries(Object(value) as object).map(([name, entry]) => [`secondary_metrics__${name}`, name, entry])
}
