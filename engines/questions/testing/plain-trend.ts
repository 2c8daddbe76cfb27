import type { PlainCalendar } from './plain-calendar.ts'
import { largest, meets, type PlainEvent, type PlainQuestion, tagOf, tagsOf } from './plain-question.ts'

function numberOf (value: unknown): number | null {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text !== undefined && /^[-+]?\d+(\.\d+)?$/.test(text) ? Number(text) : null
}

function measure ({ measure, property }: PlainQuestion['series'][number], events: PlainEvent[]): number | null {
  if (measure === 'events') return events.reduce((sum, { weight }) => sum + weight, 0)
  if (measure === 'people') return new Set(events.map(({ person }) => person)).size
  if (measure === 'groups') return new Set(events.flatMap(({ groups }) => groups[property!] ?? [])).size
  if (measure === 'per_person') {
    const people = new Set(events.map(({ person }) => person)).size
    return people === 0 ? null : events.reduce((sum, { weight }) => sum + weight, 0) / people
  }
  const numbers = events.flatMap(({ properties, weight }) => {
    const number = numberOf(properties[property!])
    return number === null ? [] : [{ number, weight }]
  })
  const sum = numbers.reduce((total, { number, weight }) => total + number * weight, 0)
  if (measure === 'sum') return sum
  if (numbers.length === 0) return null
  if (measure === 'min') return Math.min(...numbers.map(({ number }) => number))
  if (measure === 'max') return Math.max(...numbers.map(({ number }) => number))
  if (measure === 'median' || measure === 'p90') {
    // Weights are whole here, so a number stands for itself that many times.
    const all = numbers.flatMap(({ number, weight }) => Array.from({ length: weight }, () => number))
      .sort((a, b) => a - b)
    return all[Math.ceil(all.length * (measure === 'median' ? 0.5 : 0.9) - 1e-9) - 1]!
  }
  return sum / numbers.reduce((total, { weight }) => total + weight, 0)
}

const NUMBER_MEASURES = ['sum', 'average', 'median', 'p90', 'min', 'max']
const ADDS_UP = ['events', 'people', 'groups', 'sum']

export function plainTrend (question: PlainQuestion, events: PlainEvent[], calendar: PlainCalendar): unknown {
  const { breakdown, compare, formula } = question
  type Series = PlainQuestion['series'][number]
  const chosenOf = (series: Series): PlainEvent[] => events.filter((event) => meets(series, event))
  const topOf = (series: Series): Set<string> => {
    const rank = ADDS_UP.includes(series.measure) ? series : { measure: 'events' }
    const inRange = chosenOf(series).filter(({ at }) => calendar.isIn(at))
    const present = Map.groupBy(inRange, (event) => tagOf(breakdown, event))
    return largest(new Map([...present].map(([tag, of]) => [tag, measure(rank, of)!])), breakdown?.limit ?? 1)
  }
  const lines = (test: (at: number) => boolean, starts = calendar.labelsOf(test)): unknown => {
    const tagged = question.series.map((series) => {
      const top = topOf(formula === null ? series : question.series[0]!)
      const isShown = (tag: string): boolean => breakdown === null || breakdown.type === 'cohort' || top.has(tag)
      const shown = chosenOf(series).filter(({ at }) => test(at))
        .flatMap((event) => tagsOf(breakdown, event).map((tag) => ({ event, tag: isShown(tag) ? tag : 'rest' })))
      const byTag = [...Map.groupBy(shown, ({ tag }) => tag)]
      const groups = new Map(byTag.map(([tag, of]) => [tag, of.map(({ event }) => event)]))
      if (breakdown === null && groups.size === 0) groups.set('all', [])
      return groups
    })
    const tags = new Set(tagged.flatMap((groups) => [...groups.keys()]))
    const ofSeries = question.series.flatMap((series, index) => [...tags].flatMap((tag) => {
      const of = tagged[index]!.get(tag)
      if (of === undefined && formula === null) return []
      return lineOf(series, index, tag, of ?? [])
    }))
    function lineOf (series: Series, index: number, tag: string, of: PlainEvent[]) {
      const buckets = Map.groupBy(of, ({ at }) => calendar.bucketOf(at))
      const values = starts.map((start) => start > calendar.present && !buckets.has(start)
        ? null
        : measure(series, buckets.get(start) ?? []))
      const hasNumber = ({ properties }: PlainEvent): boolean => numberOf(properties[series.property!]) !== null
      const without = NUMBER_MEASURES.includes(series.measure) ? of.filter((event) => !hasNumber(event)) : []
      return { series: index, tag, total: measure(series, of), values, leftOut: measure({ measure: 'events' }, without) }
    }
    if (formula === null) return { starts, lines: ofSeries }
    const compute = FORMULAS[formula]!
    const finite = (values: (number | null)[]): number | null => {
      const value = values.includes(null) ? null : compute(...values as number[])
      return value === null || !Number.isFinite(value) ? null : value
    }
    const computed = [...tags].map((tag) => {
      const of = ofSeries.filter((line) => line.tag === tag)
      return {
        series: question.series.length, tag, total: finite(of.map(({ total }) => total)),
        values: starts.map((_, at) => finite(of.map(({ values }) => values[at]!))), leftOut: 0
      }
    })
    return { starts, lines: [...ofSeries, ...computed] }
  }
  return { present: lines(calendar.isIn), previous: compare ? lines(calendar.isBefore) : null }
}

/** Each of all series, so that a value that is missing in one is missing in the formula. */
export const FORMULAS: Readonly<Record<string, (...values: number[]) => number>> = {
  'A / B': (a = 0, b = 0) => a / b,
  '100 * (A - B) / A': (a = 0, b = 0) => 100 * (a - b) / a,
  '-A + 2.5 * B': (a = 0, b = 0) => -a + 2.5 * b
}
