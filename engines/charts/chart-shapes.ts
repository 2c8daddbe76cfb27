/** The shapes of a chart, in pixels: the console draws them as elements, and pictures that are sent as text. */
import { showText } from '../figures.ts'
import { type ChartModel, formatMark, type Series } from './chart-model.ts'

/** The style of a line or of bars. */
export interface Look {
  colour: number
  /** It is what another line of the same colour was before: thinner, with hollow points. */
  isBefore: boolean
  /** Rows that are not complete: the line to them is dotted. */
  partial: readonly boolean[]
}

export const plain = (colour: number): Look => ({ colour, isBefore: false, partial: [] })

export const classOf = ({ colour, isBefore }: Look): string => `series-${colour}${isBefore ? ' before' : ''}`

/** An element of SVG. Whoever draws it has the colours of its class. */
export interface Shape {
  tag: 'g' | 'line' | 'text' | 'path' | 'rect' | 'circle'
  class?: string
  at: Readonly<Record<string, string | number>>
  /** Text, or what is in a group. */
  of?: string | readonly Shape[]
  /** The row that a bar is of. */
  row?: number
}

/** The ends of both axes, and of the picture. */
export interface Frame { left: number, right: number, top: number, bottom: number, end: number }

export interface Scales { x: (index: number) => number, y: (value: number) => number }

export function scalesOf ({ places, from, to }: ChartModel, { left, right, top, bottom }: Frame): Scales {
  return {
    x: (index) => left + (places[index] ?? 0) * (right - left),
    y: (value) => bottom - (value - from) / (to - from) * (bottom - top)
  }
}

/** Characters of a label, and pixels of one. */
const [LABEL, LETTER] = [20, 7.5]

/** Marks, and as many labels as there is room for, the first always; the last one ends where the picture does. */
export function shapesOfAxes (model: ChartModel, frame: Frame): Shape[] {
  const { x, y } = scalesOf(model, frame)
  const { left, right, bottom, end } = frame
  const longest = LETTER * Math.max(...model.labels.map((label) => Math.min(label.length, LABEL)))
  const room = Math.max(1, Math.floor((right - left) / (longest + 16)))
  const every = Math.max(1, Math.ceil(model.labels.length / room))
  const placeOf = (index: number): number => Math.min(x(index), end - longest / 2)
  return [
    ...model.marks.flatMap((mark): Shape[] => [
      { tag: 'line', class: mark === 0 ? 'zero' : 'mark', at: { x1: left, x2: right, y1: y(mark), y2: y(mark) } },
      { tag: 'text', at: { x: left - 8, y: y(mark) + 4, 'text-anchor': 'end' }, of: formatMark(mark) }
    ]),
    ...model.labels.map((label, at) => ({ label, at }))
      .filter(({ at }) => at % every === 0 && (at === 0 || placeOf(at) - x(at - every) > longest))
      .map(({ label, at }): Shape =>
        ({ tag: 'text', at: { x: placeOf(at), y: bottom + 20, 'text-anchor': 'middle' }, of: showText(label, LABEL) }))
  ]
}

/** A group for each series. */
export function shapesOfSeries (model: ChartModel, looks: readonly Look[], frame: Frame): Shape[] {
  const scales = scalesOf(model, frame)
  const group = (frame.right - frame.left) / model.labels.length * 0.8
  return model.series.map(({ values }, index) => {
    const look = looks[index] ?? plain(index)
    const bar = { width: group / model.series.length, left: index * group / model.series.length - group / 2 }
    return {
      tag: 'g', class: classOf(look), at: {},
      of: model.kind === 'bar' ? placeBars(values, look, bar, scales) : placeLine(values, look, model.kind === 'area', scales)
    }
  })
}

type Values = Series['values']

function placeBars (
  values: Values, { partial }: Look, { width, left }: { width: number, left: number }, { x, y }: Scales
): Shape[] {
  return values.flatMap((value, row): Shape[] => {
    if (value === null) return []
    const [zero, end] = [y(0), y(value)]
    const size = { width: Math.max(1, width - 1), height: Math.abs(end - zero) }
    return [{
      tag: 'rect', row, class: partial[row] === true ? 'partial' : '', at: { x: x(row) + left, y: Math.min(zero, end), ...size }
    }]
  })
}

function placeLine (values: Values, { isBefore, partial }: Look, hasArea: boolean, scales: Scales): Shape[] {
  const { x, y } = scales
  const points = values.length > 60 ? [] : values.flatMap((value, at): Shape[] => value === null ? [] : [{ tag: 'circle', at: { cx: x(at), cy: y(value), r: 2.5 } }])
  return [
    ...hasArea && !isBefore ? shapesOfArea(values.map((value) => value === null ? null : 0), values, scales) : [],
    { tag: 'path', class: 'line', at: { d: pathOf(values, partial, false, scales) } },
    ...partial.length === 0 ? [] : [{ tag: 'path', class: 'line partial', at: { d: pathOf(values, partial, true, scales) } } as const],
    ...points
  ]
}

/** A gap where a value is missing. @param isPartial  Of what leads to partial rows, or to complete ones. */
function pathOf (values: Values, partial: Look['partial'], isPartial: boolean, { x, y }: Scales): string {
  const order = values.map((_, at) => at).sort((one, other) => x(one) - x(other))
  return order.map((at, index) => {
    const [value, before] = [values[at], values[order[index - 1] ?? -1]]
    const isJoined = before != null && (partial[at] === true) === isPartial
    return value == null ? '' : `${isJoined ? 'L' : 'M'}${x(at).toFixed(1)} ${y(value).toFixed(1)}`
  }).join('')
}

/** What lies between two lines, where both have a value. */
export function shapesOfArea (low: Values, high: Values, { x, y }: Scales): Shape[] {
  const runs: number[][] = [[]]
  low.forEach((value, at) => { if (value == null || high[at] == null) runs.push([]); else runs.at(-1)?.push(at) })
  const corner = (of: Values) => (at: number): string => `${x(at).toFixed(1)} ${y(of[at] ?? 0).toFixed(1)}`
  return runs.filter(({ length }) => length > 0).map((run) =>
    ({ tag: 'path', class: 'area', at: { d: `M${[...run.map(corner(high)), ...run.toReversed().map(corner(low))].join('L')}Z` } }))
}
