import type { ResolvedRange } from './calendar.ts'
import type { Measure, Trend } from './question.ts'
import { bucketSql, choiceSql, propertyNumber, rowsSql, spanSql, TAGS, tagOf } from './question-sql.ts'

/**
 * One row a series, period, value of the breakdown and bucket, and one with an empty bucket for all of them together,
 * because people of several buckets are counted once there.
 */
export function compileTrend (trend: Trend, projectId: number, range: ResolvedRange): string {
  const branches = trend.series.map((_, index) => compileSeries(trend, index, { projectId, range }))
  return `SELECT series, period, tag, bucket, measure, left_out FROM
(
${branches.join('\nUNION ALL\n')}
)
ORDER BY series, period, tag, bucket`
}

interface Asking { projectId: number, range: ResolvedRange }

function compileSeries (trend: Trend, index: number, { projectId, range }: Asking): string {
  const { breakdown, compare, interval } = trend
  const series = trend.series[index]
  if (series === undefined) throw new Error(`there is no series ${index}`)
  const { measure, property } = series
  const source = (spans: string): string => `SELECT timestamp, sample_weight AS weight${measure === 'people' ? ', person_id' : ''}${
    property === null ? '' : `, ${propertyNumber(property)} AS number`}${breakdown === null ? '' : `, ${tagOf(breakdown.property)} AS tag`}
        FROM ${measure === 'people' ? 'events_with_person' : 'events'}
        WHERE ${rowsSql({ projectId, includeBots: trend.includeBots }, [series])} AND (${spans}) AND ${choiceSql(series)}`
  const both = compare ? `${spanSql(range)} OR ${spanSql(range.previous)}` : spanSql(range)
  const top = breakdown === null ? null : `SELECT tag FROM (${source(spanSql(range))}) GROUP BY tag ORDER BY ${rankSql(measure)} DESC, tag LIMIT ${breakdown.limit}`
  const period = compare ? `if(timestamp >= ${spanSql(range).split(' AND ')[0]?.slice('timestamp >= '.length)}, 0, 1)` : '0'
  return `    SELECT ${index + 1} AS series, period, tag, bucket, ${measureSql(measure)} AS measure, ${property === null ? 'toFloat64(0)' : 'toFloat64(sumIf(weight, number IS NULL))'} AS left_out
    FROM
    (
        SELECT * ${breakdown === null ? '' : 'EXCEPT tag'}, toUInt8(${period}) AS period, ${bucketSql('timestamp', interval, range)} AS bucket,
            ${top === null ? `'${TAGS.all}'` : `if(tag IN (${top}), tag, '${TAGS.rest}')`} AS tag
        FROM (${source(both)})
    )
    GROUP BY GROUPING SETS ((period, tag, bucket), (period, tag))`
}

function measureSql (measure: Measure): string {
  switch (measure) {
    case 'events': return 'toNullable(toFloat64(sum(weight)))'
    case 'people': return 'toNullable(toFloat64(uniqExact(person_id)))'
    case 'sum': return 'toNullable(toFloat64(ifNull(sum(number * weight), 0)))'
    // Of no numbers there is no average.
    case 'average': return 'if(count(number) = 0, NULL, sum(number * weight) / sumIf(weight, number IS NOT NULL))'
  }
}

/** By which the largest values of a breakdown are found: a high average of few events says little. */
function rankSql (measure: Measure): string {
  return measure === 'average' ? 'sum(weight)' : measureSql(measure)
}
