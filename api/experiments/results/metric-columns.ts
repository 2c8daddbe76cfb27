/** The values of a person that a metric needs, and what outliers among them are cut to. */
import type { Caps, Metric } from './read-metric.ts'

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

/** The bounds of all columns in a row, of the values that people have last. */
export function capsSql (columns: readonly Column[]): string {
  if (columns.every(({ caps }) => caps === null)) return 'CAST([], \'Array(Float64)\')'
  const bound = (last: string, share: number | null, none: string, of = ''): string =>
    share === null ? none : `ifNotFinite(quantileExactIf(${share})(${last}, is_measured${of}) OVER (), 0)`
  return `[${columns.filter(({ source }) => source !== null).flatMap(({ last, caps }) => [
    bound(last, caps?.lower ?? null, '-inf'),
    bound(last, caps?.upper ?? null, 'inf', caps?.ignoresZeros === true ? ` AND ${last} != 0` : '')
  ]).join(', ')}]`
}

/** The values of a person without any events: zeros, as they are cut. */
export function zerosOf (metric: Metric, lookback: number, caps: readonly (number | null)[]): number[] {
  return columnsOf(metric, lookback).map((_, at) =>
    Math.max(caps[2 * at] ?? -Infinity, Math.min(caps[2 * at + 1] ?? Infinity, 0)))
}
