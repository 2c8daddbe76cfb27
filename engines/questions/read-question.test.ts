import t from 'tap'
import { HttpError } from '../errors.ts'
import { addPeriods, listBuckets, resolveRange, startOfDay } from './calendar.ts'
import { readQuestion } from './read-question.ts'

function attrOf (definition: unknown): unknown {
  try {
    readQuestion(definition)
  } catch (error) {
    return error instanceof HttpError ? error.attr : error
  }
}

const trend = { kind: 'trend', version: 1, series: [{ event: 'paid' }] }
const paths = { kind: 'paths', version: 1, from: { event: 'a' } }
const funnel = { kind: 'funnel', version: 1, steps: [{ event: 'a' }, { event: 'b' }] }

t.test('a definition that cannot be understood is refused by the name of the field', async (t) => {
  const wrong: Array<[string, unknown]> = [
    ['definition__kind', null], ['definition__kind', { kind: 'journey' }], ['definition__version', { kind: 'trend', series: [{ event: 'a' }] }],
    ['definition__series', { ...trend, series: [] }], ['definition__steps', { ...trend, steps: [] }],
    ['definition__series', { ...trend, series: Array.from({ length: 6 }, () => ({ event: 'a' })) }],
    ['definition__series__0__event', { ...trend, series: [{ event: '' }] }],
    ['definition__series__0__property', { ...trend, series: [{ event: 'paid', measure: 'sum' }] }],
    ['definition__series__0__where__0__type', { ...trend, series: [{ event: 'a', where: [{ key: 'k', type: 'group', value: 'x' }] }] }],
    ['definition__series__0__where__0__operator', { ...trend, series: [{ event: 'a', where: [{ key: 'k', operator: 'like' }] }] }],
    ['definition__series__0__where__0__value', { ...trend, series: [{ event: 'a', where: [{ key: 'k', operator: 'gt', value: 'x' }] }] }],
    ['definition__range__last', { ...trend, range: { last: 0, unit: 'day' } }], ['definition__range__from', { ...trend, range: { from: '2026-02-30', to: '2026-03-01' } }],
    ['definition__range__to', { ...trend, range: { from: '2026-03-02', to: '2026-03-01' } }],
    ['definition__breakdown__limit', { ...trend, breakdown: { property: 'plan', limit: 26 } }],
    ['definition__breakdown__order', { ...trend, breakdown: { property: 'plan', order: 'worst' } }],
    ['definition__breakdown__order', { ...funnel, breakdown: { property: 'plan', order: 'first' } }],
    ['definition__breakdown__attribution', { ...trend, breakdown: { property: 'plan', attribution: 'any' } }],
    ['definition__breakdown__attribution', { ...funnel, breakdown: { property: 'plan', attribution: 'last' } }],
    ['definition__compare', { ...trend, compare: 'yes' }], ['definition__steps', { ...funnel, steps: [{ event: 'a' }] }],
    ['definition__steps__1', { ...funnel, order: 'any_order', steps: [{ event: 'a' }, { event: 'a' }] }],
    ['definition__window__value', { ...funnel, window: { value: 366, unit: 'day' } }], ['definition__order', { ...funnel, order: 'strict' }],
    ['definition__interval', { kind: 'retention', version: 1, interval: 'hour', start: { event: 'a' } }],
    ['definition__range__last', { ...trend, range: { last: 7, from: '2026-03-01', to: '2026-03-02' } }], ['definition__range__unit', { ...trend, range: { unit: 'day', from: '2026-03-01', to: '2026-03-02' } }],
    ['definition__series__0__event', { ...trend, series: [{ event: 'e'.repeat(201) }] }],
    ['definition__series__0__where__0__key', { ...trend, series: [{ event: 'a', where: [{ key: 'k'.repeat(201), operator: 'exact', value: 'v' }] }] }],
    ['definition', { ...trend, series: [{ event: 'a', where: [{ key: 'k', operator: 'exact', value: 'v'.repeat(40_000) }] }] }],
    ['definition__exclude', { ...funnel, exclude: {} }], ['definition__exclude', { ...funnel, exclude: Array.from({ length: 6 }, () => ({ event: 'x' })) }],
    ['definition__exclude', { ...funnel, order: 'any_order', exclude: [{ event: 'x' }] }], ['definition__exclude__0__event', { ...funnel, exclude: [{ event: '' }] }],
    ['definition__exclude__0__from', { ...funnel, exclude: [{ event: 'x', from: 2 }] }], ['definition__exclude__0__to', { ...funnel, exclude: [{ event: 'x', to: 1 }] }],
    ['definition__exclude__0__to', { ...funnel, exclude: [{ event: 'x', to: 3 }] }], ['definition__exclude__0__after', { ...funnel, exclude: [{ event: 'x', after: 1 }] }],
    ['definition__exclude', { ...trend, exclude: [] }],
    ['definition__from', { kind: 'paths', version: 1 }], ['definition__from', { ...paths, to: { event: 'b' } }], ['definition__to__event', { kind: 'paths', version: 1, to: { event: 7 } }],
    ['definition__from__where__0__operator', { ...paths, from: { event: 'a', where: [{ key: 'k', operator: 'like' }] } }],
    ['definition__steps', { ...paths, steps: 11 }], ['definition__steps', { ...paths, steps: '5' }], ['definition__nodes', { ...paths, nodes: 51 }], ['definition__min_people', { ...paths, min_people: 0 }],
    ['definition__events', { ...paths, events: [] }], ['definition__events', { ...paths, events: Array.from({ length: 51 }, String) }], ['definition__events__1', { ...paths, events: ['a', null] }],
    ['definition__events__0', { ...paths, events: ['e'.repeat(201)] }], ['definition__gap__unit', { ...paths, gap: { value: 1, unit: 'week' } }], ['definition__gap__value', { ...paths, gap: { value: 366, unit: 'day' } }],
    ['definition__breakdown', { ...paths, breakdown: { property: 'plan' } }],
    ['definition__cohort', { kind: 'retention', version: 1, cohort: 'last', start: { event: 'a' } }]
  ]
  for (const [attr, definition] of wrong) t.equal(attrOf(definition), attr, JSON.stringify(definition))
})

t.test('the error for a funnel of one step names the minimum', async (t) => {
  t.throws(() => readQuestion({ ...funnel, steps: [{ event: 'a' }] }), { message: 'Expected a list of 2 to 10 entries.' })
})

t.test('omitted fields have the documented defaults', async (t) => {
  t.match(readQuestion(trend), { interval: 'day', range: { last: 30, unit: 'day' }, includeBots: false, weekStarts: null, series: [{ measure: 'events' }], breakdown: null, compare: false })
  t.match(readQuestion(funnel), { order: 'in_order', windowSeconds: 14 * 86_400 })
  t.match(readQuestion({ ...funnel, exclude: [{ event: 'x' }] }), { exclude: [{ event: 'x', where: [], from: 1, to: 2 }] })
  t.match(readQuestion(paths), { direction: 'from', anchor: { event: 'a' }, steps: 5, events: null, nodes: 20, minPeople: 1, gapSeconds: 1800 })
  t.match(readQuestion({ kind: 'retention', version: 1, start: { event: 'a' } }), { interval: 'week', cohort: 'first', returning: { event: null } })
})

t.test('days begin where clocks land that leap over midnight, and have 23 to 25 hours', async (t) => {
  const hours = (day: string, timezone: string): number => (startOfDay(addPeriods(day, 1, 'day'), timezone) - startOfDay(day, timezone)) / 3_600_000
  t.equal(new Date(startOfDay('2026-09-06', 'America/Santiago')).toISOString(), '2026-09-06T04:00:00.000Z')
  t.same([['2026-03-29', 'Europe/Berlin'], ['2026-10-25', 'Europe/Berlin'], ['2026-04-24', 'Africa/Cairo'], ['2026-10-29', 'Africa/Cairo'], ['2026-09-06', 'America/Santiago']]
    .map(([day = '', zone = '']) => hours(day, zone)), [23, 25, 23, 25, 23])
  t.equal(addPeriods('2026-03-31', -1, 'month'), '2026-02-28')
  const range = { from: startOfDay('2026-10-25', 'Europe/Berlin'), to: startOfDay('2026-10-26', 'Europe/Berlin') }
  t.equal(listBuckets(range, 'hour', { timezone: 'Europe/Berlin', weekStarts: 'monday' }).length, 25)
})

t.test('a range that has not ended is compared with as much of the previous period', async (t) => {
  const ask = (range: object): unknown => {
    const { firstDay, lastDay, previous } = resolveRange(readQuestion({ ...trend, range }), { timezone: 'Europe/Berlin', weekStarts: 'monday', now: Date.parse('2026-03-31T10:00:00Z') })
    return [firstDay, lastDay, ...[previous.from, previous.to].map((at) => new Date(at).toISOString().slice(0, 16))]
  }
  // Clocks went forward on 29 March: noon in Berlin is an hour later in UTC before.
  t.same(ask({ last: 1, unit: 'month' }), ['2026-03-01', '2026-03-31', '2026-01-31T23:00', '2026-02-28T11:00'])
  t.same(ask({ last: 2, unit: 'week' }), ['2026-03-23', '2026-04-05', '2026-03-08T23:00', '2026-03-17T11:00'])
  t.same(ask({ last: 7, unit: 'day', whole: true }), ['2026-03-24', '2026-03-30', '2026-03-16T23:00', '2026-03-23T23:00'])
  t.same(ask({ from: '2026-03-01', to: '2026-03-10' }), ['2026-03-01', '2026-03-10', '2026-02-18T23:00', '2026-02-28T23:00'])
})

t.test('a formula that cannot be computed says what is not understood', async (t) => {
  for (const [formula, message] of [
    ['A /', /cannot be read/], ['B', /no series B/], ['sum(A)', /numbers, letters/], ['A ** 2', /numbers, letters/], ['"x"', /numbers, letters/],
    ['A; A', /numbers, letters/], ['', /numbers, letters/], ['A.b', /numbers, letters/], ['!A', /numbers, letters/], [7, /at most 200/]
  ] as const) {
    t.throws(() => readQuestion({ ...trend, formula }), { attr: 'definition__formula', message }, String(formula))
  }
  t.match(readQuestion({ ...trend, formula: '-(A + 1.5) * 2' }), { formula: '-(A + 1.5) * 2' })
})
