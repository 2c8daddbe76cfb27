import type { ResolvedRange } from './calendar.ts'
import type { Measure, Trend } from './question.ts'
import { bucketSql, choiceSql, hasPersonConditions, instantSql, mergesSql, PERSON, propertyNumber, rowsSql, spanSql, TAGS, tagOf } from './question-sql.ts'

/**
 * One row a series, period, value of the breakdown and bucket, and one with an empty bucket for all of them together,
 * because people of several buckets are counted once there.
 */
export function compileTrend (trend: Trend, projectId: number, range: ResolvedRange): string {
  const branches = trend.series.map((_, index) => compileSeries(trend, index, projectId, range))
  return `SELECT series, period, tag, bucket, measure, left_out FROM
(
${branches.join('\nUNION ALL\n')}
)
ORDER BY series, period, tag, bucket`
}

function compileSeries (trend: Trend, index: number, projectId: number, range: ResolvedRange): string {
  const { breakdown, compare, interval } = trend
  const series = trend.series[index]
  if (series === undefined) throw new Error(`there is no series ${index}`)
  const { measure, property } = series
  const source = (spans: string, columns: readonly string[]): string => `SELECT ${[
    'sample_weight AS weight', ...measure === 'people' ? [`${PERSON} AS person`] : [], ...property === null ? [] : [`${propertyNumber(property)} AS number`], ...columns
  ].join(', ')}
        FROM events AS event ${measure === 'people' || hasPersonConditions([series]) ? mergesSql(projectId) : ''}
        WHERE ${rowsSql({ projectId, includeBots: trend.includeBots }, [series])} AND (${spans}) AND ${choiceSql(series, projectId)}`
  const keys: Record<string, string> = { ...compare && { period: `timestamp < ${instantSql(range.from)}` } }
  if (breakdown !== null) {
    const top = `SELECT tag FROM (${source(spanSql(range), [`${tagOf(breakdown.property)} AS tag`])}) GROUP BY tag ORDER BY ${rankSql(measure)} DESC, tag LIMIT ${breakdown.limit}`
    keys.tag = `if((${tagOf(breakdown.property)} AS own) IN (${top}), own, '${TAGS.rest}')`
  }
  const shared = Object.keys(keys).map((key) => ` AND grouping(${key}) = 0`).join('')
  keys.start = bucketSql('timestamp', interval, range)
  // What all buckets have together is made of what each has, and not of the events again.
  return `    SELECT ${index + 1} AS series, ${compare ? 'period' : 'toUInt8(0) AS period'}, ${breakdown === null ? `'${TAGS.all}' AS tag` : 'tag'},
        if(grouping(start) = 0, ${interval === 'hour' ? "formatDateTime(start, '%FT%TZ', 'UTC')" : 'toString(start)'}, '') AS bucket,
        ${measureSql(measure)} AS measure, ${property === null ? 'toFloat64(0)' : 'toFloat64(sumIf(weight, number IS NULL))'} AS left_out
    FROM (${source(compare ? `${spanSql(range)} OR ${spanSql(range.previous)}` : spanSql(range), Object.entries(keys).map(([key, sql]) => `${sql} AS ${key}`))})
    GROUP BY ${Object.keys(keys).join(', ')} WITH ROLLUP HAVING 1${shared}`
}

function measureSql (measure: Measure): string {
  switch (measure) {
    case 'events': return 'toNullable(toFloat64(sum(weight)))'
    case 'people': return 'toNullable(toFloat64(uniqExact(person)))'
    case 'sum': return 'toNullable(toFloat64(ifNull(sum(number * weight), 0)))'
    // Of no numbers there is no average.
    case 'average': return 'if(count(number) = 0, NULL, sum(number * weight) / sumIf(weight, number IS NOT NULL))'
  }
}

/** By which the largest values of a breakdown are found: a high average of few events says little. */
function rankSql (measure: Measure): string {
  return measure === 'average' ? 'sum(weight)' : measureSql(measure)
}
