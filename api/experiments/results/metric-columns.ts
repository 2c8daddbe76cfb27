/** The values of a person that a metric needs, and what outliers among them are cut to. */
import type { Caps } from './metric-options.ts'
import type { Metric } from './read-metric.ts'

/** A value of a person, in the order of `Moments`. */
interface Column {
  name: string
  /** What it is in the query before it is cut; null for what is there already. */
  source: string | null
  /** The last one of a person. */
  last: string
  caps: Caps | null
}

/**
 * The metric's value, for a ratio its denominator, and with CUPED the same before the exposure and whether there was
 * any. They are cut like the value that they go with.
 */
export function columnsOf ({ caps, belowCaps, isRatio }: Metric, lookback: number): Column[] {
  const value = { name: 'y', source: 'own', last: 'ys[-1]', caps }
  const below = { name: 'd', source: 'own_below', last: 'ds[-1]', caps: belowCaps }
  const values = isRatio ? [value, below] : [value]
  const earlier = [
    { ...value, name: 'x', source: 'before', last: 'before' }, { ...below, name: 'x_below', source: 'before_below', last: 'before_below' }
  ].slice(0, values.length)
  return lookback === 0 ? values : [...values, ...earlier, { name: 'h', source: null, last: '', caps: null }]
}

/**
 * The bounds of all columns in a row, of the values that people have last: the one at `share * n`, counted from 0, as
 * ClickHouse's `quantileExact`. Who sent nothing has zero.
 */
export function capsSql (columns: readonly Column[]): string {
  if (columns.every(({ caps }) => caps === null)) return 'SELECT CAST([], \'Array(Float64)\')'
  const cut = columns.filter(({ source }) => source !== null)
  const bound = (list: string, share: number | null, none: string): string =>
    share === null ? none : `(${list})[toUInt32(least(floor(${share} * length(${list})) + 1, toFloat64(length(${list}))))]`
  const bounds = cut.map(({ caps }, at) => [
    bound(`list_${at}`, caps?.lower ?? null, '-inf'),
    bound(caps?.ignoresZeros === true ? `arrayFilter(each -> each != 0, list_${at})` : `list_${at}`, caps?.upper ?? null, 'inf')
  ])
  const lists = cut.map(({ last }, at) => `arraySort(arrayConcat(groupArray(${last}), nothing)) AS list_${at}`)
  return `SELECT [${bounds.flat().join(', ')}] FROM (
    SELECT
      arrayWithConstant(if({is_mean:Bool}, 0, toUInt64(assumeNotNull((SELECT count() FROM exposures WHERE variant != '$multiple')) - count())), 0.) AS nothing,
      ${lists.join(', ')}
    FROM people)`
}

/** The values of a person without any events: zeros, as they are cut. */
export function zerosOf (metric: Metric, lookback: number, caps: readonly (number | null)[]): number[] {
  return columnsOf(metric, lookback).map((_, at) =>
    Math.max(caps[2 * at] ?? -Infinity, Math.min(caps[2 * at + 1] ?? Infinity, 0)))
}
