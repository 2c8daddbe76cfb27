/**
 * Answers questions one event at a time, in plain loops: the oracle of the SQL. Shares no code with it, nor the
 * calendar: a day is what clocks of the zone show.
 */
import { findOperator } from '../../operators/property-operators.ts'

export interface PlainEvent {
  event: string
  /** Merges followed. */
  person: string
  /** Unix milliseconds. */
  at: number
  isBot: boolean
  weight: number
  properties: Record<string, unknown>
  groups: Record<string, string>
  /** Those of the person as it is now; none of one that was deleted, or never had any. */
  personProperties: Record<string, unknown>
}

interface PlainCondition { type?: string, key: string, operator: string, value?: unknown }

interface PlainChoice { event?: string | null, where?: PlainCondition[] }

/** A definition as it is written, with every field. */
export interface PlainQuestion {
  kind: string
  range: { last?: number, unit?: string, whole?: boolean, from?: string, to?: string }
  include_bots: boolean
  week_starts: string
  interval: string
  series: (PlainChoice & { measure: string, property?: string })[]
  breakdown: { type?: string, property: string, limit: number } | null
  /** Of a funnel that is broken down. */
  attribution: string
  compare: boolean
  formula: string | null
  steps: PlainChoice[]
  window: { value: number, unit: string }
  order: string
  cohort: string
  start: PlainChoice
  activity: PlainChoice
  returns: string
  returning: PlainChoice
}

export interface PlainWorld { events: PlainEvent[], timezone: string, now: number }

const HALF_HOUR = 1_800_000

/** Days around now in the oracle's calendar: two whole months and the two before them begin up to 154 days back. */
const [DAYS_BACK, DAYS_AHEAD] = [190, 40]

export function answerPlainly (question: PlainQuestion, world: PlainWorld): unknown {
  const events = world.events.filter(({ isBot }) => question.include_bots || !isBot)
  const calendar = createCalendar(question, world)
  switch (question.kind) {
    case 'trend': return plainTrend(question, events, calendar)
    case 'funnel': return plainFunnel(question, events.filter(({ at }) => calendar.isIn(at)))
    case 'lifecycle': return plainLifecycle(question, events, { ...calendar, now: world.now })
    case 'stickiness': return plainStickiness(question, events, calendar)
    default: return plainRetention(question, events, { ...calendar, now: world.now })
  }
}

type PlainCalendar = ReturnType<typeof createCalendar>

const formats = new Map<string, Intl.DateTimeFormat>()
const clocks = new Map<string, Map<number, Clock>>()
const labels = new Map<string, Map<number, string>>()

interface Clock { day: string, pastHour: number }

function clock (at: number, timezone: string): Clock {
  return once(clocks, timezone, at, () => readClock(at, timezone))
}

/** What was made for a key and an instant before, or is made now. */
function once<T> (known: Map<string, Map<number, T>>, key: string, at: number, make: () => T): T {
  let of = known.get(key)
  if (of === undefined) known.set(key, of = new Map())
  let found = of.get(at)
  if (found === undefined) of.set(at, found = make())
  return found
}

function readClock (at: number, timezone: string): Clock {
  if (!formats.has(timezone)) formats.set(timezone, new Intl.DateTimeFormat('sv-SE', { timeZone: timezone, dateStyle: 'short', timeStyle: 'medium' }))
  const [day = '', time = ''] = formats.get(timezone)!.format(at).split(' ')
  const [, minutes = 0, seconds = 0] = time.split(':').map(Number)
  return { day, pastHour: minutes * 60_000 + seconds * 1000 + at % 1000 }
}

function createCalendar (question: PlainQuestion, { timezone, now }: PlainWorld) {
  const { range, interval, week_starts: weekStarts, kind } = question
  const dayOf = (at: number): string => clock(at, timezone).day
  const label = (at: number, of: string): string =>
    once(labels, `${timezone} ${of} ${weekStarts}`, at, () => makeLabel(at, of))
  function makeLabel (at: number, of: string): string {
    const { day, pastHour } = clock(at, timezone)
    if (of === 'hour') return new Date(at - pastHour).toISOString().replace('.000', '')
    if (of === 'month') return day.slice(0, 7) + '-01'
    if (of === 'day') return day
    let date = new Date(day)
    while (date.getUTCDay() !== (weekStarts === 'monday' ? 1 : 0)) date = new Date(date.getTime() - 86_400_000)
    return date.toISOString().slice(0, 10)
  }
  // Every half hour from a good while before to after: no arithmetic with dates that could be wrong like the other one.
  const middle = Math.round(now / HALF_HOUR) * HALF_HOUR
  const count = (DAYS_BACK + DAYS_AHEAD) * 48
  const instants = Array.from({ length: count }, (_, index) => middle + (index - DAYS_BACK * 48) * HALF_HOUR)
  const unit = range.from === undefined ? range.unit! : 'day'
  const units = [...new Set(instants.map((at) => label(at, unit)))]
  const present = units.indexOf(label(now, unit))
  const last = range.from === undefined ? present - (range.whole === true ? 1 : 0) : units.indexOf(range.to!)
  const first = range.from === undefined ? last - range.last! + 1 : units.indexOf(range.from)
  const length = last - first + 1
  assertListed(units, first - length, last)
  const before = new Set(units.slice(first - length, first))
  let chosen = new Set(units.slice(first, last + 1))
  let labelOfUnit = (at: number): string => label(at, unit)
  if (!['trend', 'funnel'].includes(kind)) {
    // From the beginning of the period of the first day.
    const days = [...new Set(instants.map(dayOf))]
    const begins = days.indexOf(label(instants.find((at) => chosen.has(labelOfUnit(at)))!, interval))
    const ends = days.indexOf(dayOf(instants.findLast((at) => chosen.has(labelOfUnit(at)))!))
    assertListed(days, begins, ends)
    chosen = new Set(days.slice(begins, ends + 1))
    labelOfUnit = dayOf
  }
  const isIn = (at: number): boolean => chosen.has(labelOfUnit(at))
  const hasEnded = !instants.some((at) => at > now - HALF_HOUR && isIn(at) && at + HALF_HOUR > now)
  /** The same time of day, a number of units earlier; in a shorter month at most its last day. */
  const today = dayOf(now)
  assertListed(units, present - length)
  const month = units[present - length]!.slice(0, 7)
  const daysBefore = new Date(Date.parse(today) - length * (unit === 'week' ? 7 : 1) * 86_400_000)
  const then = unit === 'month'
    ? instants.map(dayOf).findLast((day) => day.slice(0, 7) === month && day.slice(8) <= today.slice(8))!
    : daysBefore.toISOString().slice(0, 10)
  const startOf = (day: string): number => {
    const start = instants.findIndex((at) => dayOf(at) === day)
    assertListed(instants, start)
    return instants[start]!
  }
  let end: number | undefined
  const isBefore = (at: number): boolean => {
    if (!before.has(label(at, unit))) return false
    if (hasEnded) return true
    end ??= startOf(then) + now - startOf(dayOf(now))
    return at < end && dayOf(at) <= then
  }
  const labelsOf = (test: (at: number) => boolean): string[] =>
    [...new Set(instants.filter(test).map((at) => label(at, interval)))]
  const bucketOf = (at: number): string => label(at, interval)
  return { isIn, isBefore, labelsOf, bucketOf, present: bucketOf(now), dayOf }
}

/** A period at either end of the list may be cut off: an answer by it would be of another time than was asked for. */
function assertListed (list: readonly unknown[], ...indexes: number[]): void {
  const missing = indexes.find((index) => !(index > 0 && index < list.length - 1))
  if (missing !== undefined) throw new RangeError(`the plain calendar of ${list.length} periods does not reach period ${missing}`)
}

function meets ({ event = null, where = [] }: PlainChoice, of: PlainEvent): boolean {
  return (event === null || event === of.event) && where.every(({ type, key, operator, value }) => {
    const { test, whenAbsent } = findOperator(operator)!(value, { timezone: 'UTC', invalid: (message) => { throw new Error(message) } })
    const properties = type === 'person' ? of.personProperties : of.properties
    return Object.hasOwn(properties, key) ? test(properties[key], 0) : whenAbsent
  })
}

function tagOf (breakdown: PlainQuestion['breakdown'], { properties, personProperties }: PlainEvent): string {
  if (breakdown === null) return 'all'
  const value = (breakdown.type === 'person' ? personProperties : properties)[breakdown.property]
  if (value === undefined) return 'not_set'
  return `value ${typeof value === 'string' ? value : JSON.stringify(value)}`
}

/** As ClickHouse orders texts; the marks that say that a property is not set come first. */
const byBytes = (one: string, other: string): number => Buffer.compare(bytesOf(one), bytesOf(other))

const bytesOf = (tag: string): Buffer => Buffer.from(tag.replace('not_set', ''))

function largest (ranks: Map<string, number>, limit: number): Set<string> {
  const ranked = [...ranks].sort(([one, a], [other, b]) => b - a || byBytes(one, other))
  return new Set(ranked.slice(0, limit).map(([tag]) => tag))
}

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

function plainTrend (question: PlainQuestion, events: PlainEvent[], calendar: PlainCalendar): unknown {
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
      const groups = Map.groupBy(chosenOf(series).filter(({ at }) => test(at)), (event) => {
        const tag = tagOf(breakdown, event)
        return breakdown === null || top.has(tag) ? tag : 'rest'
      })
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

/** The periods of each person, the range's and earlier ones, by their first days. */
function activePeriods (question: PlainQuestion, events: PlainEvent[], { bucketOf }: PlainCalendar): Set<string>[] {
  const { activity } = question
  const active = events.filter((event) => meets(activity, event))
  const byPerson = Map.groupBy(active, ({ person }) => person)
  return [...byPerson.values()].map((of) => new Set(of.map(({ at }) => bucketOf(at))))
}

type Test = (isNow: boolean, wasBefore: boolean, wasEver: boolean) => boolean

function plainLifecycle (
  question: PlainQuestion, events: PlainEvent[], calendar: PlainCalendar & { now: number }
): unknown {
  const { isIn, labelsOf, bucketOf, dayOf, now } = calendar
  const labels = labelsOf(isIn)
  const inTime = events.filter(({ at }) => dayOf(at) < labels[0]! || isIn(at))
  const people = activePeriods(question, inTime, calendar)
  // The period before the first one ends a day before it.
  const dayBefore = new Date(Date.parse(labels[0]!) - 86_400_000).toISOString().slice(0, 10)
  const before = labelsOf(() => true).findLast((label) => label <= dayBefore)!
  const count = (label: string, test: Test): number | null => {
    if (label > bucketOf(now)) return null
    const previous = labels[labels.indexOf(label) - 1] ?? before
    const meets = (periods: Set<string>): boolean =>
      test(periods.has(label), periods.has(previous), [...periods].some((each) => each < label))
    return people.filter(meets).length
  }
  return {
    starts: labels,
    new: labels.map((label) => count(label, (isNow, _, wasEver) => isNow && !wasEver)),
    returning: labels.map((label) => count(label, (isNow, wasBefore) => isNow && wasBefore)),
    resurrecting: labels.map((label) => count(label, (isNow, wasBefore, wasEver) => isNow && !wasBefore && wasEver)),
    dormant: labels.map((label) => count(label, (isNow, wasBefore) => !isNow && wasBefore))
  }
}

function plainStickiness (question: PlainQuestion, events: PlainEvent[], calendar: PlainCalendar): unknown {
  const people = activePeriods(question, events.filter(({ at }) => calendar.isIn(at)), calendar)
  return calendar.labelsOf(calendar.isIn).map((_, index) => people.filter(({ size }) => size === index + 1).length)
}

interface Walk { tags: string[], took: (number | null)[] }

function plainFunnel ({ steps, window, order, breakdown, attribution }: PlainQuestion, events: PlainEvent[]): unknown {
  const windowMs = window.value * { minute: 60_000, hour: 3_600_000, day: 86_400_000 }[window.unit]!
  const walks = [...Map.groupBy(events, ({ person }) => person).values()].flatMap((of): Walk[] => {
    const stepsOf = (event: PlainEvent): number[] => steps.flatMap((step, index) => meets(step, event) ? [index] : [])
    const list = of.map((event) => ({ event, at: event.at, steps: stepsOf(event) }))
      .filter((each) => each.steps.length > 0)
      .sort((one, other) => one.at - other.at || one.steps[0]! - other.steps[0]! || bits(one.steps) - bits(other.steps))
    const entries = list.filter((each) => order === 'any_order' || each.steps.includes(0))
    if (entries.length === 0) return []
    const first = Math.min(...entries.map(({ at }) => at))
    const tagsOf = (of: typeof list): string[] => of.map(({ event }) => tagOf(breakdown, event)).sort(byBytes)
    const tags = attribution === 'any' ? [...new Set(tagsOf(list))] : tagsOf(entries.filter(({ at }) => at === first)).slice(0, 1)
    const walk = order === 'any_order' ? walkAnyOrder : walkInOrder
    return [{ tags, took: walk(list, steps.length, windowMs) }]
  })
  const ranks = new Map<string, number>()
  for (const tag of walks.flatMap(({ tags }) => tags)) ranks.set(tag, (ranks.get(tag) ?? 0) + 1)
  const top = largest(ranks, breakdown?.limit ?? 1)
  const shown = (walk: Walk): string[] => [...new Set(walk.tags.map((tag) => top.has(tag) ? tag : 'rest'))]
  const summary = (of: Walk[]): unknown => steps.map((_, step) => {
    const took = of.flatMap((walk) => walk.took[step] ?? []).sort((a, b) => a - b)
    return [took.length, took[Math.ceil(took.length / 2) - 1] ?? null]
  })
  const tags = breakdown === null ? [] : [...new Set(walks.flatMap(shown))]
  const parts = tags.map((tag) => [tag, walks.filter((walk) => shown(walk).includes(tag))] as const)
  return { all: summary(walks), parts: Object.fromEntries(parts.map(([tag, of]) => [tag, summary(of)])) }
}

const bits = (steps: number[]): number => steps.reduce((sum, step) => sum + 2 ** step, 0)

type Listed = { at: number, steps: number[] }[]

/** From each first step, always on to the next event that may be the next step. */
function walkInOrder (list: Listed, count: number, windowMs: number): (number | null)[] {
  const best: ({ at: number, took: number } | null)[] = Array.from({ length: count }, () => null)
  list.forEach((start, from) => {
    if (!start.steps.includes(0)) return
    let step = 0
    for (let index = from; index < list.length && step < count; index++) {
      const each = list[index]!
      if (each.at - start.at > windowMs) break
      if (!each.steps.includes(step)) continue
      const [before, took] = [best[step], each.at - start.at]
      // First reached there, from the latest start.
      const isBetter = before == null || index < before.at || (index === before.at && took <= before.took)
      if (isBetter) best[step] = { at: index, took }
      step++
    }
  })
  return best.map((each) => each?.took ?? null)
}

function walkAnyOrder (list: Listed, count: number, windowMs: number): (number | null)[] {
  const took: (number | null)[] = Array.from({ length: count }, () => null)
  list.forEach((end, index) => {
    const near = list.slice(0, index + 1).filter(({ at }) => end.at - at <= windowMs)
    const byStep = [...Map.groupBy(near, ({ steps }) => steps[0]).values()]
    const latest = byStep.map((of) => Math.max(...of.map(({ at }) => at)))
    latest.sort((a, b) => b - a).forEach((at, step) => { took[step] ??= end.at - at })
  })
  return took
}

function plainRetention (
  { start, returning, cohort: belongs, returns: counting }: PlainQuestion, events: PlainEvent[],
  calendar: PlainCalendar & { now: number }
): unknown {
  const { isIn, labelsOf, bucketOf, dayOf, now } = calendar
  const labels = labelsOf(isIn)
  const inTime = events.filter(({ at }) => dayOf(at) < labels[0]! || isIn(at))
  const cohorts = new Map(labels.map((label) => [label, labels.slice(labels.indexOf(label)).map(() => 0)]))
  for (const of of Map.groupBy(inTime, ({ person }) => person).values()) {
    const starts = of.filter((event) => meets(start, event)).map(({ at }) => at)
    const counted = (belongs === 'any' ? starts : [Math.min(...starts)]).filter((at) => starts.length > 0 && isIn(at))
    const returns = of.filter((event) => isIn(event.at) && meets(returning, event))
    const later = new Set(returns.map(({ at }) => bucketOf(at)))
    for (const cohort of new Set(counted.map(bucketOf))) {
      const counts = cohorts.get(cohort)!
      counts[0]!++
      labels.slice(labels.indexOf(cohort) + 1).forEach((label, index) => {
        if (counting === 'on' ? later.has(label) : [...later].some((other) => other >= label)) counts[index + 1]!++
      })
    }
  }
  // Events of future days are not shown.
  const begun = labels.filter((label) => label <= bucketOf(now)).length
  return Object.fromEntries([...cohorts].map(([label, counts], index) =>
    [label, counts.slice(0, Math.max(0, begun - index))]))
}
