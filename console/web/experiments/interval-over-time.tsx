import { formatCount, formatCounted, showText } from '../format.ts'
import { useWidth } from '../measure-width.ts'
import { Table } from '../states.tsx'
import { formatInterval, formatPercent, type Results } from './experiment.ts'
import { concludeDay, type Course, type Courses, type DayOfCourse, describeStop, explainMissing, layOutCourses } from './over-time.ts'

const HEIGHT = 132
const EDGE = { left: 64, right: 12, top: 10, bottom: 22 }
/** Narrower pictures have room for two dates. */
const WIDE = 480

/** The always-valid interval at the end of each day: what one would have concluded then, as a picture and as a table. */
export function IntervalOverTime ({ result }: { result: Results }) {
  const model = layOutCourses(result)
  const others = result.variants.filter(({ key }) => key !== result.baseline)
  return (
    <>
      <h3>Over time</h3>
      <p class='hint'>
        The interval that holds however often one looks, as it was at the end of each day. Once it excludes zero, you may stop.
        {others.length > 1 && ` Each of the ${others.length} variants is judged by itself: a chance of one in twenty to be wrong, each.`}
      </p>
      {model === null
        ? <p class='hint'>No day has an interval yet: {others.map(({ key }) => `${showText(key, 40)}: ${whyNone(result, key)}`).join('; ')}.</p>
        : <CoursePictures model={model} result={result} />}
      <DayTable result={result} />
    </>
  )
}

function whyNone ({ series, baseline }: Results, key: string): string {
  const last = series.at(-1)?.variants.find((each) => each.key === key)
  return explainMissing(last?.missing_interval ?? null, showText(baseline, 40))
}

/** One picture a variant below the other, on the same axes. */
function CoursePictures ({ model, result }: { model: Courses, result: Results }) {
  const { box, width } = useWidth()
  const baseline = showText(result.baseline, 40)
  return (
    <figure class='lift' ref={box}>
      {model.courses.map((course) => (
        <div key={course.key}>
          <p>{showText(course.key, 40)}: {describeStop(result.series, course.key, baseline)}</p>
          <CoursePicture course={course} model={model} width={width} />
        </div>
      ))}
      <figcaption class='hint'>
        Line: the change against {baseline} up to then. Band: the interval; of early days it may reach beyond the picture.
      </figcaption>
    </figure>
  )
}

function CoursePicture ({ course, model, width }: { course: Course, model: Courses, width: number }) {
  const { from, to } = model
  const x = (place: number): number => EDGE.left + place * (width - EDGE.left - EDGE.right)
  const y = (share: number): number => EDGE.top + Math.min(1, Math.max(0, 1 - (share - from) / (to - from))) * (HEIGHT - EDGE.top - EDGE.bottom)
  const last = course.days.at(-1)
  if (last === undefined) return null
  const middle = course.days.length > 2 && width > WIDE ? [course.days[course.days.length >> 1] ?? last] : []
  const dated = [...course.days.length > 1 ? course.days.slice(0, 1) : [], ...middle, last]
  return (
    <svg
      width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} role='img'
      aria-label={`${showText(course.key, 40)} over ${formatCounted(course.days.length, 'day')}; at the end ${formatPercent(last.lift, true)}, from ${formatInterval(last.interval)}`}
    >
      <text x={EDGE.left - 8} y={EDGE.top + 8} text-anchor='end'>{formatPercent(to, true)}</text>
      <text x={EDGE.left - 8} y={HEIGHT - EDGE.bottom} text-anchor='end'>{formatPercent(from, true)}</text>
      {dated.map(({ day, place }) => <text key={day} x={x(place)} y={HEIGHT - 5} text-anchor={place === 0 ? 'start' : place === 1 ? 'end' : 'middle'}>{day}</text>)}
      <g class={sideOf(last)}>
        {bands(course.days).map((days) => <Band key={days[0]?.day} days={days} x={x} y={y} />)}
      </g>
      <line class='zero' x1={EDGE.left} x2={width - EDGE.right} y1={y(0)} y2={y(0)} />
    </svg>
  )
}

function sideOf ({ interval }: DayOfCourse): string {
  return interval === null ? 'open' : interval[0] > 0 ? 'above' : interval[1] < 0 ? 'below' : 'open'
}

/** Days next to each other that have an interval: a gap stays a gap. */
function bands (days: readonly DayOfCourse[]): BoundedDay[][] {
  const found: BoundedDay[][] = []
  let open: BoundedDay[] | null = null
  for (const { interval, ...day } of days) {
    if (interval === null) {
      open = null
      continue
    }
    if (open === null) found.push(open = [])
    open.push({ ...day, interval })
  }
  return found
}

/** A day that has an interval. */
type BoundedDay = DayOfCourse & { interval: NonNullable<DayOfCourse['interval']> }

function Band ({ days, x, y }: { days: BoundedDay[], x: (place: number) => number, y: (share: number) => number }) {
  const at = (day: BoundedDay, share: number): string => `${x(day.place).toFixed(1)} ${y(share).toFixed(1)}`
  const outline = [...days.map((day) => at(day, day.interval[1])), ...days.toReversed().map((day) => at(day, day.interval[0]))]
  const line = days.flatMap((day) => day.lift === null ? [] : [at(day, day.lift)])
  const [only] = days
  if (days.length === 1 && only !== undefined) {
    return (
      <>
        <line class='thin' x1={x(only.place)} x2={x(only.place)} y1={y(only.interval[0])} y2={y(only.interval[1])} />
        {only.lift !== null && <circle cx={x(only.place)} cy={y(only.lift)} r='3' />}
      </>
    )
  }
  return (
    <>
      <path class='band' d={`M${outline.join('L')}Z`} />
      {line.length > 0 && <path class='course' d={`M${line.join('L')}`} />}
    </>
  )
}

/** The days behind a fold: to stop at the first good day misleads, unless the always-valid numbers say so. */
function DayTable ({ result }: { result: Results }) {
  const others = result.variants.filter(({ key }) => key !== result.baseline)
  const baseline = showText(result.baseline, 40)
  return (
    <details>
      <summary>Day by day ({formatCounted(result.series.length, 'day')})</summary>
      <Table
        label='Day by day'
        head={['Day', 'Variant', '#Exposed', `#Against ${baseline}`, '#Always-valid interval', '#Always-valid p', 'What could be concluded']}
      >
        {result.series.flatMap(({ day, variants }) => others.map(({ key }) => {
          const found = variants.find((each) => each.key === key)
          return (
            <tr key={`${day} ${key}`}>
              <td>{day}</td>
              <td>{showText(key, 40)}</td>
              <td class='number'>{formatCount(found?.exposed)}</td>
              <td class='number'>{formatPercent(found?.relative_lift ?? null, true)}</td>
              <td class='number'>{formatInterval(found?.sequential_relative_interval ?? null)}</td>
              <td class='number'>{found?.sequential_p_value?.toPrecision(2) ?? '–'}</td>
              <td class='value'>{concludeDay(found, baseline)}</td>
            </tr>
          )
        }))}
      </Table>
    </details>
  )
}
