import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { askRows } from '../../http/describe-clickhouse-error.ts'
import { object, type Value } from '../../http/json-schema.ts'
import { formatInstant, type MetricScope, numberSql } from './query-metric.ts'
import type { Metric } from './read-metric.ts'

/** Why results are not what they look like: the metric may be a mistake, or events are removed. */
export type MetricWarning = Value<typeof metricWarningSchema>

export const metricWarningSchema = object({
  code: { type: 'string', enum: ['event_not_seen', 'property_without_numbers', 'events_removed'] },
  event: { type: 'string' },
  property: { type: ['string', 'null'] },
  detail: { type: 'string' }
})

/** How long before the start an event is looked for that nobody sent since, in days. */
const DAYS_BEFORE = 30

/** Which events anybody sent in a time, how often, and whether one of them had a number in each property. */
const QUERY = `
  SELECT event, toFloat64(count()) AS times, [max(${numberSql('property')} IS NOT NULL), max(${numberSql('below_property')} IS NOT NULL)] AS numbers
  FROM events
  WHERE project_id = {project_id:UInt32} AND event IN {events:Array(String)}
    AND timestamp >= {since:DateTime64(3, 'UTC')} AND timestamp < {until:DateTime64(3, 'UTC')}
  GROUP BY event`

/**
 * Tells a metric with a misspelt name from one that nobody reached: a clean 0 % looks the same.
 *
 * @param reached  People who reached each step of a funnel; both sums of a ratio; people with a value for the other
 *   kinds. Only where that is nothing, ClickHouse is asked.
 * @throws {HttpError} 503 when ClickHouse is unavailable or too busy.
 */
export async function findMetricWarnings (
  clickhouse: ClickHouse, { scope, metric, reached }: { scope: MetricScope, metric: Metric, reached: readonly number[] }
): Promise<MetricWarning[]> {
  const properties = [metric.property, metric.belowProperty]
  const unreached = metric.steps.flatMap(({ event }, index) =>
    event === null || (reached[index] ?? 0) !== 0 ? [] : [{ event, property: properties[index] ?? null, index }])
  if (unreached.length === 0) return []
  const names = unreached.map(({ event }) => event)
  const seen = await querySeen(clickhouse, scope, names, properties)
  const missing = names.filter((event) => seen.every((row) => row.event !== event))
  const since = new Date(Math.max(0, scope.since.getTime() - DAYS_BEFORE * 86_400_000))
  const earlier = { ...scope, since, until: scope.since }
  const before = missing.length === 0 ? [] : await querySeen(clickhouse, earlier, missing, properties)
  const warnings = unreached.flatMap(({ event, property, index }): MetricWarning[] => {
    const found = seen.find((row) => row.event === event)
    if (found === undefined) {
      const times = before.find((row) => row.event === event)?.times ?? 0
      const rest = times === 0
        ? `, nor in the ${DAYS_BEFORE} days before its start. Is its name right?`
        : `, but ${times} in the ${DAYS_BEFORE} days before its start: the name is right, and nobody has sent it since.`
      return [{ code: 'event_not_seen', event, property: null, detail: `No event "${event}" was received in the time of the experiment${rest}` }]
    }
    if (property === null || found.numbers[index] === 1) return []
    return [{
      code: 'property_without_numbers', event, property,
      detail: `No event "${event}" had a number in its property "${property}" in the time of the experiment. Is its name right?`
    }]
  })
  return [...new Map(warnings.map((warning) => [warning.detail, warning])).values()]
}

/** Of an experiment that began before the day from which on events are kept, which is null when all are. */
export function findRemovedWarnings ({ since }: MetricScope, keptFrom: string | null): MetricWarning[] {
  if (keptFrom === null || since.getTime() >= Date.parse(keptFrom)) return []
  const detail = `The experiment began before ${keptFrom} (UTC), and retention removed the events before: people and values of that time are missing in its results.`
  return [{ code: 'events_removed', event: '$feature_flag_called', property: null, detail }]
}

async function querySeen (
  clickhouse: ClickHouse, scope: MetricScope, events: readonly string[], [property, below]: readonly (string | null)[]
): Promise<{ event: string, times: number, numbers: number[] }[]> {
  return await askRows(clickhouse, QUERY, {
    project_id: scope.projectId, events, property: property ?? '', below_property: below ?? '',
    since: formatInstant(scope.since), until: formatInstant(scope.until)
  }, { max_execution_time: 30 })
}
