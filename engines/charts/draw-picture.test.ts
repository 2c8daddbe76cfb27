import t from 'tap'
import type { Answer, Point, TrendLine } from '../questions/shape-answer.ts'
import { readQuestion } from '../questions/read-question.ts'
import { drawPicture } from './draw-picture.ts'
import { contentOfAnswer, contentOfResult, type PictureContent } from './picture-content.ts'

const HOSTILE = '</text><script>alert("1")</script>&\u0000\u202E\uFFFE\uD800'
const day = (at: number): string => new Date(Date.UTC(2026, 0, 1 + at)).toISOString().slice(0, 10)
const points = (count: number): Point[] =>
  Array.from({ length: count }, (_, at) => ({ start: day(at), is_partial: at === count - 1, is_removed: false }))
const line = (name: string, values: (number | null)[], series = 0): TrendLine =>
  ({ part: 'all', value: null, series, name, values, total: 3, left_out: 0 })
const trend = readQuestion({ version: 1, kind: 'trend', series: [{ event: 'paid' }] })
const contentOf = (answer: Answer, display: 'line' | 'bar' | 'area' | 'number' = 'line'): PictureContent =>
  contentOfAnswer(answer, { question: trend, display, timezone: 'Europe/Berlin' })
const draw = (content: PictureContent): string => drawPicture({ title: 'Sales', facts: ['as of 21:17 Berlin'] }, content)
const count = (svg: string, tag: string): number => svg.split(`<${tag} `).length - 1
const heightOf = (svg: string): number => Number(/^<svg [^>]*height="(\d+)"/.exec(svg)?.[1])

t.test('a trend has its lines, with that of the time before, gaps and what is partial', async (t) => {
  const before = { from: '', to: '', points: points(4), lines: [line('paid', [1, 2, 3, 4])] }
  const svg = draw(contentOf({ kind: 'trend', points: points(3), lines: [line('paid', [1, null, 2])], previous: before }))
  t.match(svg, /^<svg [^>]*width="800"/)
  t.match(svg, '>as of 21:17 Berlin<')
  t.match(svg, '>paid: 3<')
  t.match(svg, '>paid (before): 3<')
  t.match(svg, '>2026-01-01<')
  t.equal(count(svg, 'circle'), 6, 'the gap has no point')
  t.equal(svg.split('class="line partial"').length - 1, 2)
  const two = draw(contentOf({ kind: 'trend', points: points(2), lines: [line('paid', [1, 2]), line('paid', [3, 4], 1)], previous: null }))
  t.match(two, />1\. paid: 3<.*>2\. paid: 3</, 'series of one name')
  const many = Array.from({ length: 25 }, (_, at) => line(`event ${at}`, Array(1000).fill(at)))
  const crowded = draw(contentOf({ kind: 'trend', points: points(1000), lines: many, previous: null }))
  t.equal(crowded.split('class="line partial"').length - 1, 5, 'as many lines as the console draws')
  t.ok(crowded.length < 200_000)
})

t.test('bars, areas, numbers, funnels, retentions and tables are drawn', async (t) => {
  const answer: Answer = { kind: 'trend', points: points(3), lines: [line('paid', [1, 2, 3])], previous: null }
  t.equal(count(draw(contentOf(answer, 'bar')), 'rect'), 1 + 1 + 3)
  t.match(draw(contentOf(answer, 'area')), /<path class="area"/)
  t.match(draw(contentOf(answer, 'number')), /font-size="34">3</)
  t.match(draw(contentOf({ ...answer, lines: [] })), 'No event in the range matches.')
  const step = { name: 'seen', median_ms: null, p90_ms: null, times: [] }
  const funnel = draw(contentOf({ kind: 'funnel', parts: [{ part: 'all', value: null, steps: [{ ...step, people: 10, conversion: 1 }, { ...step, people: 4, conversion: 0.4 }] }] }))
  t.match(funnel, '>6 lost, 60.0 % of step 1<')
  t.match(funnel, 'width="307.2"', 'the bar is as long as the share')
  const back = (people: number) => ({ people, is_partial: false })
  const retention = draw(contentOf({ kind: 'retention', cohorts: [{ start: '2026-01-01', people: 0, returned: [back(0), back(0), back(0)] }, { start: '2026-01-02', people: 4, returned: [back(4), back(1)] }] }))
  t.match(retention, '>25.0 %<')
  t.notMatch(retention, '2026-01-01', 'it begins with the first people')
  t.match(draw(contentOf({ kind: 'stickiness', counts: [{ periods: 1, people: 2 }] })), '<rect ')
  t.match(draw(contentOf({ kind: 'lifecycle', points: points(2), states: [{ state: 'new', values: [1, 2] }] })), '>new<')
  t.match(draw(contentOf({ kind: 'paths', people: 1, paths: 1, edges: [{ step: 1, from: null, to: 'a', people: 1, paths: 1 }] })), '>(all others)<')
})

t.test('a result is drawn as its chart is set, else as a table of bounded size', async (t) => {
  const columns = [{ name: 'day', type: 'Date' }, { name: 'n', type: 'UInt64' }]
  const rows = Array.from({ length: 1000 }, (_, at) => [`2026-01-0${1 + at % 9}`, String(at)])
  t.match(draw(contentOfResult(columns, rows, { kind: 'line', x: 'day', y: ['n'] })), '<path ')
  t.match(draw(contentOfResult(columns, rows, { kind: 'number', y: ['n'] })), 'font-size="34">0<')
  const table = draw(contentOfResult(columns, rows, null))
  t.match(table, '… of 1000 rows and 2 columns')
  t.ok(heightOf(table) < 700)
  const wide = Array.from({ length: 300 }, (_, at) => ({ name: `column ${at}`, type: 'String' }))
  t.ok(draw(contentOfResult(wide, [wide.map(() => 'x'.repeat(1e5))], null)).length < 5000)
})

t.test('texts that anybody sent stay texts', async (t) => {
  const answer: Answer = { kind: 'trend', points: points(2), lines: [line(HOSTILE, [1, 2])], previous: null }
  const pictures = [contentOf(answer), contentOf(answer, 'number'), contentOfResult([{ name: HOSTILE, type: 'String' }], [[HOSTILE]], null)]
  for (const svg of pictures.map((content) => drawPicture({ title: HOSTILE, facts: [HOSTILE] }, content))) {
    t.notMatch(svg, '<script')
    t.notMatch(svg, '&\\')
    t.match(svg, '&#60;/text&#62;&#60;script&#62;alert(&#34;1&#34;)&#60;/script&#62;&#38;\\u{0}\\u{202e}\uFFFD\uFFFD')
  }
})
