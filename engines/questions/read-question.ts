import { invalidField, DefinitionError } from '../errors.ts'
import { fieldsOf, itemsOf } from '../fields.ts'
import { readConditions } from '../operators/property-conditions.ts'
import { Place, RULE_LIMITS } from '../rules/rule-definition.ts'
import { isDay } from './calendar.ts'
import { compileFormula } from './formula.ts'
import { type AskedRange, type Breakdown, type EventChoice, type Exclusion, type Funnel, INTERVALS, type Measure, MEASURES, NUMBER_MEASURES, type Paths, QUESTION_LIMITS, type Question, type Retention, type Trend } from './question.ts'

/** Of the form of a definition; another form gets another number. */
export const QUESTION_VERSION = 1

type FieldsOf = (name: string) => Place

const SHARED = ['kind', 'version', 'range', 'include_bots', 'week_starts'] as const
const LONGER = ['day', 'week', 'month'] as const
/** How the console draws a trend; it changes no query. */
const DISPLAYS = ['line', 'bar', 'area', 'number'] as const

/**
 * Reads a definition as it is stored (`docs/query/questions.md` has all fields).
 *
 * @param path  Where it stands, for errors.
 * @throws {HttpError} 400 naming the field that cannot be understood.
 */
export function readQuestion (definition: unknown, path = 'definition'): Question {
  try {
    const place = new Place(definition, [path])
    if (JSON.stringify(definition)?.length > QUESTION_LIMITS.length) throw place.error(`Expected a definition of at most ${QUESTION_LIMITS.length} characters.`)
    return readKind(place)
  } catch (error) {
    if (!(error instanceof DefinitionError)) throw error
    throw invalidField(error.path.join('__'), error.message, 'invalid_input', error)
  }
}

/** Reads a definition before it is stored or asked, when it must have no field that is ignored, as stored ones may. */
export function readNewQuestion (definition: unknown): Question {
  const question = readQuestion(definition)
  const given = itemsOf(fieldsOf(definition)['series'])
  const ignored = question.kind === 'trend' ? question.series.findIndex(({ property }, index) => property === null && fieldsOf(given[index])['property'] != null) : -1
  if (ignored !== -1) throw invalidField(`definition__series__${ignored}__property`, 'The measure of this series has no property.')
  return question
}

function readKind (place: Place): Question {
  const kind = new Place(Object(place.value).kind, [...place.path, 'kind']).oneOf(['trend', 'funnel', 'retention', 'lifecycle', 'stickiness', 'paths'])
  switch (kind) {
    case 'trend': return readTrend(place.fields(...SHARED, 'interval', 'series', 'breakdown', 'compare', 'formula', 'display'))
    case 'funnel': return readFunnel(place.fields(...SHARED, 'steps', 'exclude', 'window', 'order', 'breakdown'))
    case 'retention': return readRetention(place.fields(...SHARED, 'interval', 'cohort', 'returns', 'start', 'returning'))
    case 'paths': return readPaths(place.fields(...SHARED, 'from', 'to', 'steps', 'events', 'nodes', 'min_people', 'gap'))
    case 'lifecycle': case 'stickiness': {
      const field = place.fields(...SHARED, 'interval', 'activity')
      return { kind, ...readShared(field), interval: field('interval').or('week').oneOf(LONGER), activity: readEvent(field('activity').fields('event', 'where')) }
    }
  }
}

function readShared (field: FieldsOf): Pick<Question, 'range' | 'includeBots' | 'weekStarts'> {
  const version = field('version')
  if (version.value !== QUESTION_VERSION) throw version.error(`The version must be ${QUESTION_VERSION}.`)
  return {
    range: readRange(field('range')),
    includeBots: field('include_bots').flag(),
    weekStarts: field('week_starts').value == null ? null : field('week_starts').oneOf(['monday', 'sunday'] as const)
  }
}

function readTrend (field: FieldsOf): Trend {
  const series = field('series').entries(QUESTION_LIMITS.series).map((place) => {
    const of = place.fields('event', 'where', 'measure', 'property')
    const measure = of('measure').or('events').oneOf(MEASURES)
    return { ...readEvent(of), measure, property: NEEDS_PROPERTY.has(measure) ? of('property').propertyName() : null }
  })
  const compare = field('compare').flag()
  field('display').or('line').oneOf(DISPLAYS)
  return {
    kind: 'trend', ...readShared(field), interval: field('interval').or('day').oneOf(INTERVALS),
    series, breakdown: readBreakdown(field('breakdown')), compare, formula: readFormula(field('formula'), series.length)
  }
}

const NEEDS_PROPERTY: ReadonlySet<Measure> = new Set([...NUMBER_MEASURES, 'groups'])

function readFormula (place: Place, series: number): string | null {
  const { value } = place
  if (value === undefined || value === null) return null
  if (typeof value !== 'string' || value.length > 200) throw place.error('Expected a formula of at most 200 characters.')
  try {
    compileFormula(value, series)
  } catch (error) {
    throw place.error(error instanceof Error ? error.message : String(error))
  }
  return value
}

function readFunnel (field: FieldsOf): Funnel {
  const places = field('steps').entries(QUESTION_LIMITS.steps, 2)
  const steps = places.map((place) => readEvent(place.fields('event', 'where')))
  const order = field('order').or('in_order').oneOf(['in_order', 'any_order'])
  const names = steps.map(({ event }) => event)
  const again = names.findIndex((name, at) =>
    at > 0 && (name === null || names[0] === null || names.indexOf(name) < at))
  // One event would be two steps, and which of them would depend on the others.
  if (order === 'any_order' && again !== -1) throw places[again]?.error('In any order, each step must be an event of another name.')
  return {
    kind: 'funnel', ...readShared(field), steps, order, exclude: readExclusions(field('exclude'), steps.length, order),
    windowSeconds: readSeconds(field('window').or({ value: 14, unit: 'day' })),
    breakdown: readBreakdown(field('breakdown'), ['order', 'attribution'])
  }
}

function readExclusions (place: Place, steps: number, order: Funnel['order']): Exclusion[] {
  const places = place.or([]).entries(QUESTION_LIMITS.exclusions, 0)
  if (order === 'any_order' && places.length > 0) throw place.error('Only steps in order can exclude events.')
  return places.map((each) => {
    const of = each.fields('event', 'where', 'from', 'to')
    const from = of('from').or(1).integer(1, steps - 1)
    const to = of('to').or(steps).integer(1, steps)
    if (to <= from) throw of('to').error('It must be a step after the one of from.')
    return { ...readEvent(of), from, to }
  })
}

function readPaths (field: FieldsOf): Paths {
  const [from, to, events] = [field('from').or(null), field('to').or(null), field('events').or(null)]
  if ((from.value === null) === (to.value === null)) throw from.error('Expected either from or to: the event that paths lead from, or to.')
  const direction = from.value === null ? 'to' : 'from'
  return {
    kind: 'paths', ...readShared(field), direction, anchor: readEvent((direction === 'from' ? from : to).fields('event', 'where')),
    steps: field('steps').or(5).integer(1, QUESTION_LIMITS.steps),
    events: events.value === null ? null : events.entries(QUESTION_LIMITS.nodes).map((each) => readName(each)),
    nodes: field('nodes').or(20).integer(1, QUESTION_LIMITS.nodes),
    minPeople: field('min_people').or(1).integer(1, 1_000_000),
    gapSeconds: readSeconds(field('gap').or({ value: 30, unit: 'minute' }))
  }
}

function readRetention (field: FieldsOf): Retention {
  return {
    kind: 'retention', ...readShared(field), interval: field('interval').or('week').oneOf(LONGER),
    cohort: field('cohort').or('first').oneOf(['first', 'any']),
    returns: field('returns').or('on').oneOf(['on', 'on_or_after']),
    start: readEvent(field('start').fields('event', 'where')),
    returning: readEvent(field('returning').or({ event: null }).fields('event', 'where'))
  }
}

function readEvent (field: FieldsOf): EventChoice {
  const event = field('event').or(null)
  const where = field('where').or([]).entries(QUESTION_LIMITS.conditions, 0)
  for (const place of where) {
    const of = place.fields('key', 'operator', 'value', 'type')
    if (of('type').value !== 'cohort') of('key').propertyName()
  }
  return { event: event.value === null ? null : readName(event, ', or null for any'), where: readConditions(field('where').path.join('__'), where.map(({ value }) => value), ['event', 'person', 'cohort']) }
}

function readName (place: Place, orNull = ''): string {
  const { value } = place
  if (typeof value !== 'string' || value === '') throw place.error(`Expected the name of an event${orNull}.`)
  if (value.length > RULE_LIMITS.nameLength) throw place.error(`The name of an event has at most ${RULE_LIMITS.nameLength} characters.`)
  return value
}

function readBreakdown (place: Place, more: string[] = []): Breakdown | null {
  if (place.value === undefined || place.value === null) return null
  const type = new Place(Object(place.value).type, [...place.path, 'type']).or('event').oneOf(['event', 'person', 'cohort'] as const)
  const field = type === 'cohort' ? place.fields('type', 'cohorts', ...more.filter((name) => name !== 'attribution')) : place.fields('type', 'property', 'limit', ...more)
  const order = field('order').or('people').oneOf(['people', 'worst', 'best'] as const)
  if (type === 'cohort') {
    const cohorts = field('cohorts').entries(QUESTION_LIMITS.breakdown).map((each) => each.integer(1, 2 ** 31 - 1))
    // All of them are shown, and who is in none.
    return { type, property: '', cohorts: [...new Set(cohorts)], limit: cohorts.length + 1, order, attribution: 'first' }
  }
  return {
    type, property: field('property').propertyName(), cohorts: [],
    limit: field('limit').or(10).integer(1, QUESTION_LIMITS.breakdown), order, attribution: field('attribution').or('first').oneOf(['first', 'any'])
  }
}

const SECONDS = { minute: 60, hour: 3600, day: 86_400 } as const

function readSeconds (place: Place): number {
  const field = place.fields('value', 'unit')
  const unit = SECONDS[field('unit').oneOf(['minute', 'hour', 'day'])]
  return field('value').integer(1, QUESTION_LIMITS.window / unit) * unit
}

function readRange (place: Place): AskedRange {
  const field = place.or({ last: 30, unit: 'day' }).fields('last', 'unit', 'whole', 'from', 'to')
  if (field('from').value === undefined && field('to').value === undefined) {
    return { last: field('last').integer(1, 1000), unit: field('unit').or('day').oneOf(LONGER), whole: field('whole').flag() }
  }
  const relative = ['last', 'unit', 'whole'].map(field).find(({ value }) => value !== undefined)
  if (relative !== undefined) throw relative.error('A range has either last, unit and whole, or from and to.')
  const [from, to] = [readDay(field('from')), readDay(field('to'))]
  if (to < from) throw field('to').error('The last day must not be before the first one.')
  return { from, to }
}

function readDay (place: Place): string {
  const { value } = place
  if (typeof value === 'string' && isDay(value)) return value
  throw place.error('Expected a day from 2000-01-01 to 2099-12-31, like 2026-03-01.')
}
