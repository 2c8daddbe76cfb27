/** What the always-valid interval said at the end of each day, as a chart and in words. */
import { formatPercent, type MissingInterval, type Results, type VariantOfDay } from './describe-experiment.ts'

/** A day of a chart, in percent: the change against the baseline and the ends of its interval; null for none. */
export type CourseRow = [day: string, change: number | null, least: number | null, most: number | null]

/**
 * The chart of a variant over time.
 *
 * The interval of the first days is many times wider than the last one, and is cut to the span of the later half of the
 * intervals, so that the change to be seen is not a thin line between two walls.
 *
 * @returns null before any day has an interval.
 */
export function drawCourse (series: Results['series'], key: string): CourseRow[] | null {
  const days = series.map(({ day, variants }) => ({ day, found: variants.find((each) => each.key === key) }))
  const intervals = days.map(({ found }) => found?.sequential_relative_interval ?? null)
  const known = intervals.filter((interval) => interval !== null)
  if (known.length === 0) return null
  const ends = known.slice(Math.floor(known.length / 2)).flat()
  const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)]
  const percent = (share: number | null | undefined): number | null =>
    share == null ? null : Number((100 * Math.min(high, Math.max(low, share))).toFixed(2))
  return days.map(({ day, found }) => {
    const [least, most] = found?.sequential_relative_interval ?? []
    return [day, percent(found?.relative_lift), percent(least), percent(most)]
  })
}

/** What could be said of a variant at the end of a day, whatever was looked at before. */
export function concludeDay (day: VariantOfDay | undefined, baseline: string): string {
  const interval = day?.sequential_absolute_interval ?? null
  if (interval !== null && interval[0] > 0) return `more than ${baseline}`
  if (interval !== null && interval[1] < 0) return `less than ${baseline}`
  return day?.sequential_relative_interval != null
    ? 'no difference shown'
    : explainMissing(day?.missing_interval ?? null, baseline)
}

export function explainMissing (reason: MissingInterval | null, baseline: string): string {
  switch (reason) {
    case 'variant_not_exposed': return 'nobody saw it'
    case 'baseline_not_exposed': return `nobody saw ${baseline}`
    case 'too_few_values': return 'fewer than two people with a value'
    case 'values_do_not_vary': return 'all values are the same'
    case 'baseline_near_zero': return `too little data: ${baseline} may still be zero`
    default: return 'not known'
  }
}

/**
 * When one could have stopped and what one would have concluded then: the first day whose interval leaves zero out.
 * Later days may have it again; the promise holds for anyone who stopped at the first.
 *
 * @param baseline  As it is shown.
 */
export function describeStop (series: Results['series'], key: string, baseline: string): string {
  const days = series.map(({ day, variants }) => ({ day, found: variants.find((each) => each.key === key) }))
  const last = days.at(-1)?.found
  const stop = days.find(({ found }) => isConclusive(found))
  if (stop === undefined) {
    const why = last?.sequential_absolute_interval == null
      ? explainMissing(last?.missing_interval ?? null, baseline)
      : 'the interval has included zero on every day'
    return `too early to stop if you check every day: ${why}. The verdict is valid for a single check, at the planned end.`
  }
  const lift = stop.found?.relative_lift ?? null
  const change = lift === null ? '' : ` (${formatPercent(lift, true)} up to then)`
  const since = isConclusive(last) ? '' : ' The interval includes zero again.'
  return `checking every day, you could have stopped at the end of ${stop.day} and concluded: ${concludeDay(stop.found, baseline)}${change}.${since}`
}

/** Whether the interval that holds at every look excludes zero. */
export function isConclusive (day: VariantOfDay | undefined): boolean {
  const interval = day?.sequential_absolute_interval ?? null
  return interval !== null && (interval[0] > 0 || interval[1] < 0)
}
