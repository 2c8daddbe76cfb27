/** Which columns of a result are drawn, and where each value stands. */
import { type Column, formatValue, isNumeric, isTime, type Value } from './result-values.ts'

/** How a chart may be drawn, in the words of a button. */
export const CHART_KINDS = { line: 'Lines', bar: 'Bars', area: 'Areas', number: 'Number' } as const
export type ChartKind = keyof typeof CHART_KINDS

export const isChartKind = (text: string): text is ChartKind => Object.hasOwn(CHART_KINDS, text)

export interface ChartChoice { kind: ChartKind, x?: string, y?: string[] }

/** The available and the chosen columns, by position, because two may have the same name. */
export interface ChartColumns {
  kind: ChartKind
  x: number
  y: number[]
}

export interface Series { name: string, values: (number | null)[] }

export interface ChartModel {
  kind: ChartKind
  labels: string[]
  /** Place of each label from 0 to 1, in proportion for times and numbers. */
  places: number[]
  series: Series[]
  /** The vertical axis: from, to, and its marks. */
  from: number
  to: number
  marks: number[]
  /** Rows that are not drawn, because a chart of more says nothing. */
  left: number
}

/** Points of a line, bars of one color. */
const MAX_POINTS = 2000
export const MAX_SERIES = 5

/** @returns null when the result has no column of numbers. */
export function chooseColumns (columns: readonly Column[], choice: ChartChoice): ChartColumns | null {
  const wanted = columns.findIndex(({ name }) => name === choice.x)
  const first = columns.findIndex(({ type }) => isTime(type))
  const words = columns.findIndex(({ type }) => !isNumeric(type))
  const x = wanted !== -1 ? wanted : first !== -1 ? first : words !== -1 ? words : 0
  const numbers = columns.map(({ name, type }, index) => ({ name, type, index }))
    .filter(({ type, index }) => isNumeric(type) && (index !== x || columns.length === 1))
  const named = numbers.filter(({ name }) => choice.y?.includes(name))
  const y = (named.length > 0 ? named : numbers).slice(0, MAX_SERIES).map(({ index }) => index)
  return y.length === 0 ? null : { kind: choice.kind, x, y }
}

export function buildChart (
  columns: readonly Column[], rows: readonly Value[][], { kind, x, y }: ChartColumns
): ChartModel {
  const drawn = rows.slice(0, MAX_POINTS)
  const type = columns[x]?.type ?? ''
  const labels = drawn.map((row) => formatValue(row[x] ?? null, type))
  const position = drawn.map((row, index) => placeOf(row[x] ?? null, type) ?? index)
  const [least, most] = [Math.min(...position), Math.max(...position)]
  const isInProportion = kind !== 'bar' && most > least && position.every(Number.isFinite)
  const places = position.map((place, index) => isInProportion
    ? (place - least) / (most - least)
    : kind === 'bar' ? (index + 0.5) / drawn.length : drawn.length === 1 ? 0.5 : index / (drawn.length - 1))
  const series = y.map((index) => ({
    name: columns[index]?.name ?? '', values: drawn.map((row) => toNumber(row[index] ?? null))
  }))
  const values = series.flatMap((each) => each.values.filter((value) => value !== null))
  const { from, to, marks } = layOutAxis(Math.min(0, ...values), Math.max(0, ...values))
  return { kind, labels, places, series, from, to, marks, left: rows.length - drawn.length }
}

/** Drawing rounds to pixels, so a double is enough here; the table has every digit. */
export function toNumber (value: Value): number | null {
  const number = typeof value === 'string' || typeof value === 'number' ? Number(value) : NaN
  return Number.isFinite(number) ? number : null
}

function placeOf (value: Value, type: string): number | null {
  if (isNumeric(type)) return toNumber(value)
  if (!isTime(type) || typeof value !== 'string') return null
  const ms = Date.parse(`${value.replace(' ', 'T')}${value.length > 10 ? 'Z' : ''}`)
  return Number.isNaN(ms) ? null : ms
}

/** Marks at 1, 2 or 5 times a power of ten, three to six of them, which take in both ends. */
function layOutAxis (least: number, most: number): Pick<ChartModel, 'from' | 'to' | 'marks'> {
  const span = most - least || 1
  const power = 10 ** Math.floor(Math.log10(span / 4))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => span / each <= 5) ?? 10 * power
  const from = Math.floor(least / step) * step
  const count = Math.ceil((Math.max(most, least + span * 0.01) - from) / step)
  // Adding up would add up the errors of doubles, too.
  const marks = Array.from({ length: count + 1 }, (_, index) => Number((from + index * step).toPrecision(12)))
  return { from: marks[0] ?? from, to: marks.at(-1) ?? from, marks }
}

const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 2 })

/** A mark of the axis: `1.5M`. */
export function formatMark (value: number): string {
  return SHORT.format(value)
}
