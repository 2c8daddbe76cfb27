/** Where the marks of a chart stand, in pixels: in the console, and in the pictures that are sent. */
import type { ChartModel, Series } from './chart-model.ts'

/** The style of a line or of bars. */
export interface Look {
  colour: number
  /** It is what another line of the same colour was before: thinner, with hollow points. */
  isBefore: boolean
  /** Rows that are not complete: the line to them is dotted. */
  partial: readonly boolean[]
}

export const plain = (colour: number): Look => ({ colour, isBefore: false, partial: [] })

export interface Scales { x: (index: number) => number, y: (value: number) => number }

type Values = Series['values']

/** A gap where a value is missing. @param wanted  Of what leads to complete rows, or to those that are not. */
export function pathOfLine (
  values: Values, { x, y }: Scales, { partial, isPartial }: Pick<Look, 'partial'> & { isPartial: boolean }
): string {
  const order = values.map((_, at) => at).sort((one, other) => x(one) - x(other))
  return order.map((at, index) => {
    const [value, before] = [values[at], values[order[index - 1] ?? -1]]
    const isJoined = before != null && (partial[at] === true) === isPartial
    return value == null ? '' : `${isJoined ? 'L' : 'M'}${x(at).toFixed(1)} ${y(value).toFixed(1)}`
  }).join('')
}

/** What lies between two lines, where both have a value. */
export function pathsOfArea (low: Values, high: Values, { x, y }: Scales): string[] {
  const runs: number[][] = [[]]
  low.forEach((value, at) => { if (value == null || high[at] == null) runs.push([]); else runs.at(-1)?.push(at) })
  const corner = (of: Values) => (at: number): string => `${x(at).toFixed(1)} ${y(of[at] ?? 0).toFixed(1)}`
  return runs.filter(({ length }) => length > 0)
    .map((run) => `M${[...run.map(corner(high)), ...run.toReversed().map(corner(low))].join('L')}Z`)
}

export interface Bar { at: number, x: number, y: number, width: number, height: number }

/** The bars of one series, beside those of the others. @param width  Of the whole chart. */
export function placeBars ({ series, labels }: ChartModel, index: number, { x, y }: Scales, width: number): Bar[] {
  const group = width / labels.length * 0.8
  const bar = group / series.length
  return (series[index]?.values ?? []).flatMap((value, at) => {
    if (value === null) return []
    const size = { width: Math.max(1, bar - 1), height: Math.abs(y(value) - y(0)) }
    return [{ at, x: x(at) - group / 2 + index * bar, y: Math.min(y(0), y(value)), ...size }]
  })
}

/** Characters of a label. */
export const LABEL = 20

/** As many labels as there is room for, the first always; the last one ends where the axis does. */
export function placeLabels (
  { labels }: ChartModel, x: Scales['x'], { width, end }: { width: number, end: number }
): { at: number, label: string, x: number }[] {
  const longest = 7.5 * Math.max(...labels.map((label) => Math.min(label.length, LABEL)))
  const room = Math.max(1, Math.floor(width / (longest + 16)))
  const every = Math.max(1, Math.ceil(labels.length / room))
  const placeOf = (index: number): number => Math.min(x(index), end - longest / 2)
  return labels.map((label, at) => ({ at, label, x: placeOf(at) }))
    .filter(({ at, x: place }) => at % every === 0 && (at === 0 || place - x(at - every) > longest))
}
