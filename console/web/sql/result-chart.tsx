import { useMemo, useState } from 'preact/hooks'
import { formatCount, formatCounted, showText } from '../format.ts'
import { useWidth } from '../measure-width.ts'
import { buildChart, type ChartColumns, chooseColumns, type ChartChoice, type ChartModel, formatMark, MAX_SERIES } from './chart-model.ts'
import { type Column, isNumeric, type Value } from './query-result.ts'
import { Select } from '../states.tsx'

const HEIGHT = 300
const EDGE = { left: 64, right: 12, top: 12, bottom: 28 }

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
      <Picture columns={columns} rows={rows} chosen={chosen} along={nameOf(chosen.x)} />
    </div>
  )
}

export interface Look {
  colour: number
  /** It is what another line of the same colour was before: thinner, with hollow points. */
  isBefore: boolean
  /** Rows that are not complete: the line to them is dotted. */
  partial: readonly boolean[]
}

const classOf = (index: number, look?: Look): string => `series-${look?.colour ?? index}${look?.isBefore === true ? ' before' : ''}`

interface PictureProps {
  columns: readonly Column[]
  rows: readonly Value[][]
  chosen: ChartColumns
  along: string
  /** Style of each chosen column; default: by the order of colors. */
  looks?: readonly Look[]
}

/** The picture below the names of its lines. */
export function Chart (props: PictureProps) {
  const { columns, chosen, looks } = props
  return (
    <div class='chart'>
      <p class='toolbar'>{chosen.y.map((column, index) => <span key={column} class={`series ${classOf(index, looks?.[index])}`}>{showText(columns[column]?.name ?? '', 120)}</span>)}</p>
      <Picture {...props} />
    </div>
  )
}

function Picture ({ columns, rows, chosen, along, looks = [] }: PictureProps) {
  const model = useMemo(() => buildChart(columns, rows, chosen), [columns, rows, rows.length, chosen.kind, chosen.x, chosen.y.join()])
  const { box, width } = useWidth()
  const [pointed, setPointed] = useState<number>()
  const inner = width - EDGE.left - EDGE.right
  const x = (index: number): number => EDGE.left + (model.places[index] ?? 0) * inner
  const y = (value: number): number => EDGE.top + (1 - (value - model.from) / (model.to - model.from)) * (HEIGHT - EDGE.top - EDGE.bottom)
  const point = (event: PointerEvent): void => {
    const distance = (index: number): number => Math.abs(x(index) - event.offsetX)
    setPointed(model.places.reduce((best, _, index) => distance(index) < distance(best) ? index : best, 0))
  }
  const names = model.series.map(({ name }) => showText(name, 40)).join(', ')
  return (
    <figure ref={box}>
      <svg
        role='img' width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} onPointerMove={point} onPointerLeave={() => setPointed(undefined)}
        aria-label={`${names} along ${showText(along, 40)}, ${formatCounted(model.labels.length, model.kind === 'line' ? 'point' : 'bar')} from ${formatMark(model.from)} to ${formatMark(model.to)}`}
      >
        {model.marks.map((mark) => (
          <g key={mark}>
            <line class={mark === 0 ? 'zero' : 'mark'} x1={EDGE.left} x2={width - EDGE.right} y1={y(mark)} y2={y(mark)} />
            <text x={EDGE.left - 8} y={y(mark) + 4} text-anchor='end'>{formatMark(mark)}</text>
          </g>
        ))}
        <Labels model={model} x={x} width={inner} />
        {pointed !== undefined && <line class='pointer' x1={x(pointed)} x2={x(pointed)} y1={EDGE.top} y2={HEIGHT - EDGE.bottom} />}
        {model.kind === 'line' ? <Lines model={model} x={x} y={y} looks={looks} /> : <Bars model={model} x={x} y={y} width={inner} pointed={pointed} />}
      </svg>
      <figcaption class='hint numbers'>
        {pointed === undefined || model.labels[pointed] === undefined
          ? model.left > 0 ? `The first ${formatCount(model.labels.length)} rows; ${formatCount(model.left)} more are not drawn.` : 'Hover for values.'
          : `${showText(model.labels[pointed], 60)}: ${chosen.y.map((index) => `${showText(columns[index]?.name ?? '', 40)} ${String(rows[pointed]?.[index] ?? 'NULL')}`).join(' · ')}`}
      </figcaption>
    </figure>
  )
}

/** As many labels as there is room for, the first always; the last one ends where the axis does. */
function Labels ({ model, x, width }: { model: ChartModel, x: (index: number) => number, width: number }) {
  const longest = 7.5 * Math.max(...model.labels.map((label) => Math.min(label.length, 20)))
  const room = Math.max(1, Math.floor(width / (longest + 16)))
  const every = Math.max(1, Math.ceil(model.labels.length / room))
  const end = EDGE.left + width + EDGE.right
  const placeOf = (index: number): number => Math.min(x(index), end - longest / 2)
  const isShown = (index: number): boolean => index % every === 0 && (index === 0 || placeOf(index) - x(index - every) > longest)
  return (
    <>
      {model.labels.map((label, index) => isShown(index) && <text key={index} x={placeOf(index)} y={HEIGHT - 8} text-anchor='middle'>{showText(label, 20)}</text>)}
    </>
  )
}

interface DrawnProps { model: ChartModel, x: (index: number) => number, y: (value: number) => number }

/** A gap where a value is missing. */
function Lines ({ model, x, y, looks }: DrawnProps & { looks: readonly Look[] }) {
  return (
    <>
      {model.series.map(({ values }, index) => {
        const partial = looks[index]?.partial ?? []
        const order = values.map((_, at) => at).sort((one, other) => x(one) - x(other))
        const draw = (isPartial: boolean): string => order.map((at, index) => {
          const [value, before] = [values[at], values[order[index - 1] ?? -1]]
          const isJoined = before != null && (partial[at] === true) === isPartial
          return value == null ? '' : `${isJoined ? 'L' : 'M'}${x(at).toFixed(1)} ${y(value).toFixed(1)}`
        }).join('')
        return (
          <g key={index} class={classOf(index, looks[index])}>
            <path class='line' d={draw(false)} />
            {partial.length > 0 && <path class='line partial' d={draw(true)} />}
            {values.length <= 60 && values.map((value, at) => value !== null && <circle key={at} cx={x(at)} cy={y(value)} r='2.5' />)}
          </g>
        )
      })}
    </>
  )
}

function Bars ({ model, x, y, width, pointed }: DrawnProps & { width: number, pointed: number | undefined }) {
  const group = width / model.labels.length * 0.8
  const bar = group / model.series.length
  return (
    <>
      {model.series.map(({ values }, index) => (
        <g key={index} class={`series-${index}`}>
          {values.map((value, at) => value !== null && (
            <rect
              key={at} class={pointed === undefined || pointed === at ? '' : 'pale'} x={x(at) - group / 2 + index * bar} width={Math.max(1, bar - 1)}
              y={Math.min(y(0), y(value))} height={Math.abs(y(value) - y(0))}
            />
          ))}
        </g>
      ))}
    </>
  )
}
