/** What a picture of an answer shows: a chart, large numbers, the bars of a funnel, or a table. */
import { formatMeasure, formatShare, pointName, shareOf } from '../figures.ts'
import { labelOf } from '../questions/describe-answer.ts'
import type { Answer, RetentionAnswer, TrendAnswer } from '../questions/shape-answer.ts'
import { buildChart, type ChartChoice, type ChartKind, type ChartModel, chooseColumns, toNumber } from './chart-model.ts'
import { type Look, plain } from './chart-shapes.ts'
import type { Cell } from './draw-table.ts'
import { chooseLines, describeSteps, type StepBar } from './drawn-parts.ts'
import { type Column, formatValue, type Value } from './result-values.ts'

export type PictureContent =
  | { kind: 'chart', model: ChartModel, looks: readonly Look[] }
  | { kind: 'numbers', of: ReadonlyArray<{ name: string, value: number | null }> }
  | { kind: 'funnel', steps: readonly StepBar[] }
  | { kind: 'table', rows: ReadonlyArray<readonly Cell[]> }

interface Asked {
  /** Its formula, if it has one, is drawn alone. */
  question: { kind: string, formula?: string | null, series?: readonly unknown[] }
  display: ChartKind
  timezone: string
}

export function contentOfAnswer (answer: Answer, { question, display, timezone }: Asked): PictureContent {
  switch (answer.kind) {
    case 'trend': return contentOfTrend(answer, question.formula == null ? 0 : question.series?.length ?? 0, { display, timezone })
    case 'funnel': return { kind: 'funnel', steps: describeSteps(answer.parts[0]?.steps ?? []) }
    case 'retention': return { kind: 'table', rows: rowsOfRetention(answer) }
    case 'paths': return toTable(['step', 'from', 'to', 'people'], answer.edges.map(({ step, from, to, people }) =>
      [String(step), from ?? '(all others)', to ?? '(all others)', formatMeasure(people)]))
    case 'lifecycle': return drawColumns(
      answer.states.map(({ state, values }) => ({ name: state, values })),
      { labels: answer.points.map(({ start }) => pointName(start, timezone)), kind: 'line', looks: answer.states.map((_, colour) => ({ ...plain(colour), partial: answer.points.map((point) => point.is_partial) })) })
    case 'stickiness': return drawColumns(
      [{ name: 'people', values: answer.counts.map(({ people }) => people) }],
      { labels: answer.counts.map(({ periods }) => String(periods)), kind: 'bar', looks: [plain(0)] })
  }
}

/** Of a saved query: as its chart is set, else its first rows. */
export function contentOfResult (
  columns: readonly Column[], rows: readonly Value[][], chart: ChartChoice | null
): PictureContent {
  const chosen = chart === null ? null : chooseColumns(columns, chart)
  if (chosen === null || rows.length === 0) return toTable(columns.map(({ name }) => name), rows.map((row) => row.map((value, at) => formatValue(value, columns[at]?.type ?? ''))))
  if (chosen.kind === 'number') return { kind: 'numbers', of: chosen.y.map((at) => ({ name: columns[at]?.name ?? '', value: toNumber(rows[0]?.[at] ?? null) })) }
  return { kind: 'chart', model: buildChart(columns, rows, chosen), looks: chosen.y.map((_, colour) => plain(colour)) }
}

function contentOfTrend (
  { points, lines, previous }: TrendAnswer, asked: number, { display, timezone }: Pick<Asked, 'display' | 'timezone'>
): PictureContent {
  if (lines.length === 0) return toTable([], [['No event in the range matches.']])
  const isOne = lines.every(({ series }) => series === lines[0]?.series)
  const drawn = chooseLines(lines, previous?.lines, asked).map(({ line, colour, isBefore }) => {
    const of = isBefore ? previous?.points ?? [] : points
    return { ...line, name: `${isOne ? '' : `${line.series + 1}. `}${labelOf(line)}${isBefore ? ' (before)' : ''}`, look: { colour, isBefore, partial: of.map((point) => point.is_partial) } }
  })
  if (display === 'number') return { kind: 'numbers', of: drawn.map(({ name, total }) => ({ name, value: total })) }
  const named = drawn.map(({ name, total, values }) => ({ name: `${name}: ${formatMeasure(total)}`, values }))
  // A month may have more days than the one after it.
  const places = points.length >= (previous?.points.length ?? 0) ? points : previous?.points ?? []
  const labels = places.map((_, at) => points[at] === undefined ? '–' : pointName(points[at].start, timezone))
  return drawColumns(named, { labels, kind: display, looks: drawn.map(({ look }) => look) })
}

function drawColumns (
  series: ReadonlyArray<{ name: string, values: readonly (number | null)[] }>,
  { labels, kind, looks }: { labels: readonly string[], kind: ChartKind, looks: readonly Look[] }
): PictureContent {
  const columns = [{ name: '', type: 'String' }, ...series.map(({ name }) => ({ name, type: 'Float64' }))]
  const rows = labels.map((label, at) => [label, ...series.map(({ values }) => values[at] ?? null)])
  return { kind: 'chart', model: buildChart(columns, rows, { kind, x: 0, y: series.map((_, at) => at + 1) }), looks }
}

/** From the first period in which somebody began. */
function rowsOfRetention ({ cohorts }: RetentionAnswer): Cell[][] {
  const shown = cohorts.slice(Math.max(0, cohorts.findIndex(({ people }) => (people ?? 0) > 0)))
  const periods = Math.max(0, ...shown.map(({ returned }) => returned.length))
  return [
    ['Began', 'People', ...Array.from({ length: Math.max(0, periods - 1) }, (_, at) => String(at + 1))].map((text, at) => ({ text, isNumber: at > 0 })),
    ...shown.map(({ start, people, returned }) => {
      const shares = returned.slice(1).map((each) => ({ ...each, share: shareOf(each.people, people) }))
      return [
        { text: start }, { text: formatMeasure(people), isNumber: true },
        ...shares.map(({ share, is_partial: isPartial }) => ({ text: `${formatShare(share)}${isPartial ? ' *' : ''}`, isNumber: true, share }))
      ]
    })
  ]
}

function toTable (head: readonly string[], rows: readonly (readonly string[])[]): PictureContent {
  return { kind: 'table', rows: [head, ...rows].map((row) => row.map((text) => ({ text }))) }
}
