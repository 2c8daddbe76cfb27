import { quoteString } from 'chdb-server/sql-lexer'
import { indexOfBucket, listBuckets, type ResolvedRange } from './calendar.ts'
import { type Breakdown, type Interval, type Measure, NUMBER_MEASURES, type Trend } from './question.ts'
import { bucketSql, choiceSql, cohortTagsSql, hasPersonConditions, instantSql, knownSql, mergesSql, PERSON, propertyNumber, rowsSql, spanSql, TAGS, tagOf } from './question-sql.ts'

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
  const series = seriesOf(trend, index)
  const { measure } = series
  const keys: Record<string, string> = {
    ...compare && { period: `timestamp < ${instantSql(range.from)}` },
    ...breakdown !== null && { tag: shownTagSql(trend, series, breakdown, projectId, range) }
  }
  const shared = Object.keys(keys).map((key) => ` AND grouping(${key}) = 0`).join('')
  keys.start = bucketSql('timestamp', interval, range)
  const spans = compare ? `${spanSql(range)} OR ${spanSql(range.previous)}` : spanSql(range)
  // What all buckets have together is made of what each has, and not of the events again.
  return `    SELECT ${index + 1} AS series, ${compare ? 'period' : 'toUInt8(0) AS period'}, ${breakdown === null ? `'${TAGS.all}' AS tag` : 'tag'},
        if(grouping(start) = 0, ${startSql(interval)}, '') AS bucket,
        ${measureSql(measure)} AS measure, ${isOfNumbers(series) ? 'toFloat64(sumIf(weight, number IS NULL))' : 'toFloat64(0)'} AS left_out
    FROM (${eventsSql(trend, series, { projectId, spans, range, columns: Object.entries(keys).map(([key, sql]) => `${sql} AS ${key}`) })})
    GROUP BY ${Object.keys(keys).join(', ')} WITH ROLLUP HAVING 1${shared}`
}

/** A value of a trend; `start` is its bucket, null for all of the range. */
export interface TrendCell { series: number, isPrevious: boolean, start: string | null, tag: string }

/** The persons behind a value, with what each adds to it. @throws {HttpError} 400 for the start of no bucket. */
export function compileTrendPersons (
  trend: Trend, { series: index, isPrevious, start, tag }: TrendCell,
  { projectId, range }: { projectId: number, range: ResolvedRange }
): string {
  const series = seriesOf(trend, index)
  const { breakdown, interval } = trend
  const span = isPrevious ? range.previous : range
  if (start !== null) indexOfBucket(listBuckets(span, interval, range), start)
  const columns = [
    ...needsPerson(series) ? [] : [`${PERSON} AS person`], 'timestamp AS happened', `${bucketSql('timestamp', interval, range)} AS start`,
    ...breakdown === null ? [] : [`${shownTagSql(trend, series, breakdown, projectId, range)} AS tag`]
  ]
  // Events without a number are left out of the value.
  const isIn = [
    ...isOfNumbers(series) ? ['number IS NOT NULL'] : [],
    ...start === null ? [] : [`${startSql(interval)} = ${quoteString(start)}`],
    ...breakdown === null ? [] : [`tag = ${quoteString(tag)}`]
  ]
  return `SELECT person, max(happened) AS at, ${measureSql(series.measure)} AS value
FROM (${eventsSql(trend, series, { projectId, spans: spanSql(span), range, columns, hasPerson: true })})
${isIn.length === 0 ? '' : `WHERE ${isIn.join(' AND ')} `}GROUP BY person`
}

type Series = Trend['series'][number]

const isOfNumbers = ({ measure }: Series): boolean => NUMBER_MEASURES.some((each) => each === measure)

const needsPerson = ({ measure }: Series): boolean => measure === 'people' || measure === 'per_person'

function seriesOf (trend: Trend, index: number): Series {
  const series = trend.series[index]
  if (series === undefined) throw new Error(`there is no series ${index}`)
  return series
}

/** The events of a series in some spans of time. */
function eventsSql (
  { includeBots, breakdown }: Trend, series: Series,
  { projectId, spans, range, columns, hasPerson = needsPerson(series) }:
  { projectId: number, spans: string, range: ResolvedRange, columns: readonly string[], hasPerson?: boolean }
): string {
  const { measure, property } = series
  const joinsMerges = hasPerson || hasPersonConditions([series]) || (breakdown !== null && breakdown.type !== 'event')
  const all = [
    'sample_weight AS weight',
    ...needsPerson(series) ? [`${PERSON} AS person`] : [],
    ...property === null ? [] : [measure === 'groups' ? groupSql(property) : `${propertyNumber(property)} AS number`],
    ...columns
  ]
  return `SELECT ${all.join(', ')}
        FROM ${range.source ?? 'events'} AS event ${joinsMerges ? mergesSql(projectId) : ''} ${knownSql(breakdown, projectId)}
        WHERE ${rowsSql({ projectId, includeBots, range }, [series])} AND (${spans}) AND ${choiceSql(series, projectId, range)}`
}

const groupSql = (type: string): string => `groups[${quoteString(type)}] AS member`

/** The part of the breakdown that an event is shown in: the largest are found in the range alone. */
function shownTagSql (trend: Trend, of: Series, breakdown: Breakdown, projectId: number, range: ResolvedRange): string {
  if (breakdown.type === 'cohort') return `arrayJoin(${cohortTagsSql(breakdown, projectId, range)})`
  const tag = tagOf(breakdown)
  // A formula computes with the same parts of all series.
  const series = trend.formula === null ? of : seriesOf(trend, 0)
  const events = eventsSql(trend, series, { projectId, spans: spanSql(range), range, columns: [`${tag} AS tag`] })
  return `if((${tag} AS own) IN (SELECT tag FROM (${events}) GROUP BY tag ORDER BY ${rankSql(series.measure)} DESC, tag LIMIT ${breakdown.limit}), own, '${TAGS.rest}')`
}

/** The name of a bucket. */
function startSql (interval: Interval): string {
  return interval === 'hour' ? "formatDateTime(start, '%FT%TZ', 'UTC')" : 'toString(start)'
}

function measureSql (measure: Measure): string {
  switch (measure) {
    case 'events': return 'toNullable(toFloat64(sum(weight)))'
    case 'people': return 'toNullable(toFloat64(uniqExact(person)))'
    case 'sum': return 'toNullable(toFloat64(ifNull(sum(number * weight), 0)))'
    // Of no numbers there is no average.
    case 'average': return 'if(count(number) = 0, NULL, sum(number * weight) / sumIf(weight, number IS NOT NULL))'
    case 'median': return quantileSql(0.5)
    case 'p90': return quantileSql(0.9)
    case 'min': case 'max': return `${measure}(number)`
    case 'per_person': return 'if(count() = 0, NULL, sum(weight) / uniqExact(person))'
    case 'groups': return "toNullable(toFloat64(uniqExactIf(member, member != '')))"
  }
}

/** Weights count to a millionth: the function takes whole numbers. */
function quantileSql (level: number): string {
  return `if(count(number) = 0, NULL, toNullable(quantileExactWeightedIf(${level})(assumeNotNull(number), toUInt64(round(weight * 1000000)), number IS NOT NULL)))`
}

const ADDS_UP: ReadonlySet<Measure> = new Set(['events', 'people', 'groups', 'sum'])

/** By which the largest values of a breakdown are found: a high average of few events says little. */
function rankSql (measure: Measure): string {
  return ADDS_UP.has(measure) ? measureSql(measure) : 'sum(weight)'
}
