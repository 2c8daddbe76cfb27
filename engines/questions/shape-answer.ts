/**
 * Shapes the rows of a query into an answer with all buckets, including empty ones. The OpenAPI document describes its
 * fields (`api/questions/question-schemas.ts`).
 */
import { LIFECYCLE_STATES } from './activity-sql.ts'
import { type Bucket, listBuckets, type ResolvedRange, type Span, tooMany } from './calendar.ts'
import { nameOf, nameOfSeries } from './compile-question.ts'
import { timesOf } from './funnel-sql.ts'
import { compileFormula } from './formula.ts'
import { type Activity, type Breakdown, type Funnel, type Measure, type Question, QUESTION_LIMITS, type Retention, type Trend } from './question.ts'
import { TAGS } from './question-sql.ts'

/**
 * Of which part something is said: all, one value of the breakdown, or a cohort by its id, events without the property
 * or of people in no cohort, or the rest.
 */
export interface Part {
  part: 'all' | 'value' | 'cohort' | 'not_set' | 'rest'
  value: string | null
}

export type Point = ReturnType<typeof toPoint>

export interface TrendLine extends Part {
  /** Which of the asked series, from 0; the line of a formula comes after them. */
  series: number
  name: string
  /** One a point; null: there is no average, or the point has not begun or is removed. */
  values: Array<number | null>
  total: number | null
  /** Events of a sum or an average without a number in the property; they count in neither. */
  left_out: number
}

export type TrendAnswer = ReturnType<typeof shapeTrend>
export type FunnelAnswer = ReturnType<typeof shapeFunnel>
export type RetentionAnswer = ReturnType<typeof shapeRetention>
export type LifecycleAnswer = ReturnType<typeof shapeLifecycle>
export type StickinessAnswer = ReturnType<typeof shapeStickiness>
export type PathsAnswer = ReturnType<typeof shapePaths>
export type Answer = TrendAnswer | FunnelAnswer | RetentionAnswer | LifecycleAnswer | StickinessAnswer | PathsAnswer

/** Values of a row of the query in the order of its columns. */
export type AnswerRow = ReadonlyArray<string | number | null>

export function shapeAnswer (question: Question, range: ResolvedRange, rows: readonly AnswerRow[]): Answer {
  switch (question.kind) {
    case 'trend': return shapeTrend(question, range, rows)
    case 'funnel': return shapeFunnel(question, range, rows)
    case 'retention': return shapeRetention(question, range, rows)
    case 'lifecycle': return shapeLifecycle(question, range, rows)
    case 'stickiness': return shapeStickiness(question, range, rows)
    case 'paths': return shapePaths(range, rows)
  }
}

/** @throws {HttpError} 400 for a range with more buckets than are drawn. */
export function checkSize (question: Question, range: ResolvedRange): void {
  if (!('interval' in question)) return
  const buckets = listBuckets(range, question.interval, range)
  if (question.kind !== 'trend' && buckets.length > QUESTION_LIMITS.cohorts) {
    throw tooMany(question.interval, QUESTION_LIMITS.cohorts)
  }
}

function readPart (tag: string, breakdown: Breakdown | null): Part {
  switch (tag) {
    case TAGS.all: return { part: 'all', value: null }
    case TAGS.notSet: return { part: 'not_set', value: null }
    case TAGS.rest: return { part: 'rest', value: null }
    default: return { part: breakdown?.type === 'cohort' ? 'cohort' : 'value', value: tag.slice(TAGS.value.length) }
  }
}

/** The tag in the query of a funnel. */
export function tagOfPart ({ part, value }: Part): string {
  return part === 'value' || part === 'cohort' ? `${TAGS.value}${value ?? ''}` : TAGS[part === 'not_set' ? 'notSet' : part]
}

function readNumber (value: string | number | null | undefined): number | null {
  return value == null ? null : Number(value)
}

function byRank (one: TrendLine, other: TrendLine): number {
  return Number(one.part === 'rest') - Number(other.part === 'rest') || (other.total ?? 0) - (one.total ?? 0)
}

const ZERO_OF_NOTHING: ReadonlySet<Measure> = new Set(['events', 'people', 'groups', 'sum'])

/** One line a part; all series have the same parts. */
function computeFormula (formula: string, series: number, lines: readonly TrendLine[]): TrendLine[] {
  const compute = compileFormula(formula, series)
  return [...Map.groupBy(lines, tagOfPart).values()].map((ofPart) => {
    const [first] = ofPart
    if (first === undefined) throw new Error('a group is never empty')
    return {
      ...first, series, name: formula, left_out: 0, total: compute(ofPart.map(({ total }) => total)),
      values: first.values.map((_, at) => compute(ofPart.map(({ values }) => values[at] ?? null)))
    }
  }).sort(byRank)
}

function shapeTrend (trend: Trend, range: ResolvedRange, rows: readonly AnswerRow[]) {
  const shape = (span: Span, wanted: number): { points: Point[], lines: TrendLine[] } => {
    const buckets = listBuckets(span, trend.interval, range)
    const found = rows.filter(([, period]) => Number(period) === wanted)
    const lines = trend.series.flatMap((series, index) => {
      const ofSeries = Map.groupBy(found.filter(([of]) => Number(of) === index + 1), ([, , tag]) => String(tag))
      if (trend.breakdown === null && ofSeries.size === 0) ofSeries.set(TAGS.all, [])
      // A formula needs the same parts of all series.
      const tags = trend.formula === null ? [] : found.map(([, , tag]) => String(tag))
      for (const tag of tags) ofSeries.set(tag, ofSeries.get(tag) ?? [])
      const empty = ZERO_OF_NOTHING.has(series.measure) ? 0 : null
      return [...ofSeries].map(([tag, ofTag]): TrendLine => {
        const stored = new Map(ofTag.map(([, , , bucket, measure]) => [String(bucket), readNumber(measure)]))
        const get = (bucket: string, { from = 0, to }: Pick<Span, 'to'> & Partial<Span>): number | null =>
          to <= range.keptFrom ? null : stored.get(bucket) ?? (stored.has(bucket) || from > range.now ? null : empty)
        const values = buckets.map((bucket) => get(bucket.start, bucket))
        const leftOut = Number(ofTag.find(([, , , bucket]) => bucket === '')?.[5] ?? 0)
        return { series: index, name: nameOfSeries(series), ...readPart(tag, trend.breakdown), values, total: get('', { to: span.to }), left_out: leftOut }
      }).sort(byRank)
    })
    if (trend.formula !== null) lines.push(...computeFormula(trend.formula, trend.series.length, lines))
    return { points: buckets.map((bucket) => toPoint(bucket, span, range)), lines }
  }
  const [from = '', to = ''] = [range.previous.from, range.previous.to].map((at) => new Date(at).toISOString())
  return { kind: 'trend' as const, ...shape(range, 0), previous: trend.compare ? { from, to, ...shape(range.previous, 1) } : null }
}

function toPoint ({ start, from, to }: Bucket, span: Span, { keptFrom, now }: ResolvedRange) {
  const isPartial = from < Math.max(span.from, keptFrom) || to > span.to || to > now
  return { start, is_partial: isPartial, is_removed: to <= keptFrom }
}

function shapeLifecycle ({ interval }: Activity, range: ResolvedRange, rows: readonly AnswerRow[]) {
  const buckets = listBuckets(range, interval, range)
  const people = new Map(rows.map(([state, index, count]) => [`${state} ${index}`, Number(count)]))
  return {
    kind: 'lifecycle' as const, points: buckets.map((bucket) => toPoint(bucket, range, range)),
    states: LIFECYCLE_STATES.map((state) => ({
      state,
      values: buckets.map(({ from, to }, index) =>
        from > range.now || to <= range.keptFrom ? null : people.get(`${state} ${index}`) ?? 0)
    }))
  }
}

function shapeStickiness ({ interval }: Activity, range: ResolvedRange, rows: readonly AnswerRow[]) {
  const people = new Map(rows.map(([periods, count]) => [Number(periods), Number(count)]))
  const isRemoved = range.to <= range.keptFrom
  return {
    kind: 'stickiness' as const,
    counts: listBuckets(range, interval, range).map((_, index) =>
      ({ periods: index + 1, people: isRemoved ? null : people.get(index + 1) ?? 0 }))
  }
}

function shapeFunnel (funnel: Funnel, range: ResolvedRange, rows: readonly AnswerRow[]) {
  const { steps, breakdown } = funnel
  const known = rows.length > 0 ? rows : [[TAGS.all, ...steps.flatMap(() => [0, null, null, ''])]]
  const times = timesOf(funnel)
  const [all = [], ...parts] = known.map(([tag, ...numbers]) => ({
    ...readPart(String(tag), breakdown),
    steps: steps.map((step, index) => {
      const [count, median, p90, histogram] = numbers.slice(index * 4)
      const people = range.to <= range.keptFrom ? null : Number(count)
      const conversion = people === null || Number(numbers[0]) === 0 ? null : people / Number(numbers[0])
      const took = String(histogram).split(',').map(Number)
      const endOf = (at: number): number => times[at + 1] ?? funnel.windowSeconds * 1000
      return {
        name: nameOf(step), people, conversion, median_ms: readNumber(median), p90_ms: readNumber(p90),
        times: index === 0 ? [] : times.map((from, at) => ({ from_ms: from, to_ms: endOf(at), people: took[at] ?? 0 }))
      }
    })
  }))
  if (breakdown !== null && breakdown.order !== 'people') {
    const sign = breakdown.order === 'worst' ? 1 : -1
    parts.sort((one, other) => sign * ((one.steps.at(-1)?.conversion ?? 0) - (other.steps.at(-1)?.conversion ?? 0)))
  }
  return { kind: 'funnel' as const, parts: [all, ...parts].flat() }
}

function readName (name: AnswerRow[number] | undefined): string | null {
  return name === '' ? null : String(name)
}

function shapePaths (range: ResolvedRange, rows: readonly AnswerRow[]) {
  const isRemoved = range.to <= range.keptFrom
  const read = rows.map(([step, from, to, people, paths]) => ({
    step: Number(step), from: readName(from), to: readName(to), people: Number(people), paths: Number(paths)
  }))
  const all = read.find(({ step }) => step === 0)
  return {
    kind: 'paths' as const, people: isRemoved ? null : all?.people ?? 0, paths: isRemoved ? null : all?.paths ?? 0,
    edges: read.filter(({ step }) => step > 0)
  }
}

function shapeRetention ({ interval }: Retention, range: ResolvedRange, rows: readonly AnswerRow[]) {
  const buckets = listBuckets(range, interval, range)
  const people = new Map(rows.map(([cohort, bucket, count]) => [`${cohort} ${bucket}`, Number(count)]))
  return {
    kind: 'retention' as const,
    cohorts: buckets.map(({ start, from: begin, to: end }, first) => {
      const get = (bucket: string): number | null => end <= Math.max(range.keptFrom, range.firstEvent ?? -Infinity) ? null : people.get(`${start} ${bucket}`) ?? 0
      return {
        start,
        people: get(start),
        returned: buckets.slice(first).filter(({ from }) => from <= range.now).map((bucket) => ({
          people: get(bucket.start),
          is_partial: (begin < range.keptFrom && end > range.keptFrom) || bucket.to > range.now || bucket.to > range.to
        }))
      }
    })
  }
}
