/** What the always-valid interval said at the end of each day: what is drawn of it, and in words. */
import { formatPercent, type Interval, type MissingInterval, type Results, type VariantOfDay } from './experiment.ts'

/** One variant against the baseline, day by day. */
export interface Course {
  key: string
  days: DayOfCourse[]
}

export interface DayOfCourse {
  day: string
  /** From 0, the first day, to 1, the last. */
  place: number
  lift: number | null
  interval: Interval | null
}

/** The variants over time on one span, which has zero. */
export interface Courses {
  courses: Course[]
  from: number
  to: number
}

/**
 * What is drawn over time.
 *
 * The interval of the first days is many times wider than the last one; the span is that of the later half of the
 * intervals, so that the change to be seen is not a thin line between two walls, and wider ones are cut.
 *
 * @returns null before any day has an interval.
 */
export function layOutCourses ({ series, baseline, variants }: Results): Courses | null {
  const [first, last] = [series[0]?.day, series.at(-1)?.day]
  if (first === undefined || last === undefined) return null
  const length = Math.max(1, Date.parse(last) - Date.parse(first))
  const courses = variants.filter(({ key }) => key !== baseline).map(({ key }): Course => ({
    key,
    days: series.map(({ day, variants: ofDay }) => {
      const found = ofDay.find((each) => each.key === key)
      return {
        day,
        place: series.length === 1 ? 1 : (Date.parse(day) - Date.parse(first)) / length,
        lift: found?.relative_lift ?? null,
        interval: found?.sequential_relative_interval ?? null
      }
    })
  }))
  const ends = courses.flatMap(({ days }) => {
    const known = days.flatMap(({ interval }) => interval === null ? [] : [interval])
    return known.slice(Math.floor(known.length / 2)).flat()
  })
  if (ends.length === 0) return null
  const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)]
  const room = Math.max((high - low) * 0.1, 0.01)
  return { courses, from: low - room, to: high + room }
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

/** Why there is no interval, in words. */
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
      : 'on no day did the interval exclude zero'
    return `too early to stop if you look every day: ${why}. A verdict of significant is for one look, at the planned end.`
  }
  const lift = stop.found?.relative_lift ?? null
  const change = lift === null ? '' : ` (${formatPercent(lift, true)} up to then)`
  const since = isConclusive(last) ? '' : ' By now, the interval holds zero again.'
  return `who looked every day could stop at the end of ${stop.day} and conclude: ${concludeDay(stop.found, baseline)}${change}.${since}`
}

function isConclusive (day: VariantOfDay | undefined): boolean {
  const interval = day?.sequential_absolute_interval ?? null
  return interval !== null && (interval[0] > 0 || interval[1] < 0)
}
