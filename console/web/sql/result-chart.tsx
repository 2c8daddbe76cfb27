import { h } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import { buildChart, type ChartColumns, chooseColumns, type ChartChoice, formatMark, MAX_SERIES, toNumber } from '../../../engines/charts/chart-model.ts'
import { classOf, type Look, plain, scalesOf, type Shape, shapesOfArea, shapesOfAxes, shapesOfSeries } from '../../../engines/charts/chart-shapes.ts'
import { type Column, isNumeric, type Value } from '../../../engines/charts/result-values.ts'
import { formatCount, formatCounted, formatMeasure, showText } from '../format.ts'
import { useWidth } from '../measure-width.ts'
import { Select } from '../states.tsx'

const [HEIGHT, BOTTOM] = [300, 272]

/** A result as lines or bars. The table beside it has the exact values, for those who cannot see the picture, too. */
export function ResultChart (
  { columns, rows, choice, onChoice }:
  { columns: readonly Column[], rows: readonly Value[][], choice: ChartChoice, onChoice: (choice: ChartChoice) => void }
) {
  const chosen = chooseColumns(columns, choice)
  if (chosen === null) return <p class='hint'>A chart needs a column of numbers.</p>
  const numbers = columns.map((column, index) => ({ ...column, index })).filter(({ type, index }) => isNumeric(type) && index !== chosen.x)
  const nameOf = (index: number): string => columns[index]?.name ?? ''
  const toggle = (index: number): void => {
    const next = chosen.y.includes(index) ? chosen.y.filter((each) => each !== index) : [...chosen.y, index]
    if (next.length > 0) onChoice({ ...choice, y: next.map(nameOf) })
  }
  return (
    <div class='chart'>
      <div class='toolbar'>
        <Select
          label='Along' value={chosen.x} options={columns.map(({ name }, index) => [index, showText(name, 40)] as const)}
          onChange={(value) => onChoice({ ...choice, x: columns[Number(value)]!.name })}
        />
        {numbers.map(({ name, index }) => (
          <label key={index} class={`series series-${chosen.y.indexOf(index)}`}>
            <input type='checkbox' checked={chosen.y.includes(index)} disabled={!chosen.y.includes(index) && chosen.y.length >= MAX_SERIES} onChange={() => toggle(index)} />
            {' '}{showText(name, 40)}
          </label>
        ))}
      </div>
      {chosen.kind === 'number'
        ? <Numbers of={chosen.y.map((index, colour) => ({ name: nameOf(index), look: plain(colour), value: toNumber(rows[0]?.[index] ?? null) }))} />
        : <Picture columns={columns} rows={rows} chosen={chosen} along={nameOf(chosen.x)} />}
    </div>
  )
}

/** What happened at the time of a row. */
export interface Mark { row: number, text: string }

interface PictureProps {
  columns: readonly Column[]
  rows: readonly Value[][]
  chosen: ChartColumns
  along: string
  /** Style of each chosen column; default: by the order of colors. */
  looks?: readonly Look[]
  marks?: readonly Mark[]
  /** The last two columns are the ends of an interval, which is shaded. */
  hasBand?: boolean
}

/** The picture below the names of its lines, each of which hides its line and shows it again. */
export function Chart (props: PictureProps) {
  const { columns, chosen, hasBand = false } = props
  const [hidden, setHidden] = useState<readonly string[]>([])
  const lines = chosen.y.map((column, index) => {
    const name = columns[column]?.name ?? ''
    return { column, name, isHidden: hidden.includes(name), look: props.looks?.[index] ?? plain(index) }
  })
  const seen = lines.filter(({ isHidden }) => !isHidden)
  const shown = seen.length === 0 ? lines : seen
  const mayHide = lines.length > 1 && !hasBand
  /** The last one stays. */
  const hide = (name: string): void => {
    const next = hidden.includes(name) ? hidden.filter((each) => each !== name) : [...hidden, name]
    if (lines.some((line) => !next.includes(line.name))) setHidden(next)
  }
  return (
    <div class='chart'>
      <p class='toolbar'>
        {lines.map(({ column, name, look }) => {
          const isShown = shown.some((each) => each.column === column)
          const title = showText(name, 120)
          if (!mayHide) return <span key={column} class={`series ${classOf(look)}`}>{title}</span>
          return <button key={column} type='button' class={`series ${classOf(look)}`} aria-pressed={isShown} onClick={() => hide(name)}>{title}</button>
        })}
      </p>
      {chosen.kind === 'number'
        ? <Numbers of={shown.map(({ column, name, look }) => ({ name, look, value: toNumber(props.rows[0]?.[column] ?? null) }))} />
        : <Picture {...props} chosen={{ ...chosen, y: shown.map(({ column }) => column) }} looks={shown.map(({ look }) => look)} />}
    </div>
  )
}

/** The first row as large numbers. */
function Numbers ({ of }: { of: readonly { name: string, look: Look, value: number | null }[] }) {
  const { box, width } = useWidth()
  const row = 64
  return (
    <figure ref={box}>
      <svg role='img' width={width} height={of.length * row} viewBox={`0 0 ${width} ${of.length * row}`} aria-label={of.map(({ name, value }) => `${showText(name, 100)}: ${formatMeasure(value)}`).join(', ')}>
        {of.map(({ name, look, value }, at) => (
          <g key={name} class={classOf(look)}>
            <text class='figure' x='0' y={at * row + 36}>{formatMeasure(value)}</text>
            <text x='0' y={at * row + 56}>{showText(name, Math.max(10, Math.floor(width / 7)))}</text>
          </g>
        ))}
      </svg>
    </figure>
  )
}

function Picture ({ columns, rows, chosen, along, looks = [], marks = [], hasBand = false }: PictureProps) {
  const model = useMemo(() => buildChart(columns, rows, chosen), [columns, rows, rows.length, chosen.kind, chosen.x, chosen.y.join()])
  const { box, width } = useWidth()
  const [pointed, setPointed] = useState<number>()
  const frame = { left: 64, right: width - 12, top: marks.length > 0 ? 28 : 12, bottom: BOTTOM, end: width }
  const scales = scalesOf(model, frame)
  const { x } = scales
  const point = (event: PointerEvent): void => {
    const distance = (index: number): number => Math.abs(x(index) - event.offsetX)
    setPointed(model.places.reduce((best, _, index) => distance(index) < distance(best) ? index : best, 0))
  }
  const names = model.series.map(({ name }) => showText(name, 40)).join(', ')
  const [low, high] = hasBand ? model.series.slice(-2).map(({ values }) => values) : []
  return (
    <figure ref={box}>
      <svg
        role='img' width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} onPointerMove={point} onPointerLeave={() => setPointed(undefined)}
        aria-label={`${names} along ${showText(along, 40)}, ${formatCounted(model.labels.length, model.kind === 'bar' ? 'bar' : 'point')} from ${formatMark(model.from)} to ${formatMark(model.to)}`}
      >
        <Shapes of={shapesOfAxes(model, frame)} />
        <Marks of={marks.filter(({ row }) => row < model.labels.length)} x={x} end={frame.right} />
        {pointed !== undefined && <line class='pointer' x1={x(pointed)} x2={x(pointed)} y1={frame.top} y2={frame.bottom} />}
        {low !== undefined && high !== undefined && <g class={classOf(looks[0] ?? plain(0))}><Shapes of={shapesOfArea(low, high, scales)} /></g>}
        <Shapes of={shapesOfSeries(model, looks, frame)} pointed={pointed} />
      </svg>
      <figcaption class='hint numbers'>
        {pointed === undefined || model.labels[pointed] === undefined
          ? model.left > 0 ? `The first ${formatCount(model.labels.length)} rows; ${formatCount(model.left)} more are not drawn.` : 'Hover for values.'
          : `${showText(model.labels[pointed], 60)}: ${chosen.y.map((index) => `${showText(columns[index]?.name ?? '', 40)} ${String(rows[pointed]?.[index] ?? 'NULL')}`).join(' · ')}`}
      </figcaption>
    </figure>
  )
}

/** A line for each, with as much of its text as there is room for before the next one. */
function Marks ({ of, x, end }: { of: readonly Mark[], x: (index: number) => number, end: number }) {
  return (
    <>
      {of.map(({ row, text }, index) => {
        const next = of.slice(index + 1).find((each) => each.row > row)
        const room = Math.floor(((next === undefined ? end : x(next.row)) - x(row) - 4) / 7)
        return (
          <g key={index} class='happened'>
            <title>{text}</title>
            <line x1={x(row)} x2={x(row)} y1='4' y2={BOTTOM} />
            {of[index - 1]?.row !== row && room > 3 && <text x={x(row) + 4} y='14'>{showText(text, room - 1)}</text>}
          </g>
        )
      })}
    </>
  )
}

/** @param props.pointed  Row at the pointer: bars of the others are pale. */
function Shapes ({ of, pointed }: { of: readonly Shape[], pointed?: number | undefined }) {
  return (
    <>
      {of.map(({ tag, class: name = '', at, of: inner, row }, index) => {
        const isPale = row !== undefined && pointed !== undefined && row !== pointed
        return h(tag, { key: index, ...at, class: isPale ? `${name} pale` : name }, typeof inner === 'object' ? <Shapes of={inner} pointed={pointed} /> : inner)
      })}
    </>
  )
}
