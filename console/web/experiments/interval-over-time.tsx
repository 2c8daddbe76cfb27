import { formatCount, formatCounted, showText } from '../format.ts'
import { Chart } from '../sql/result-chart.tsx'
import { Table } from '../states.tsx'
import { formatInterval, formatPercent, type Results } from './describe-experiment.ts'
import { concludeDay, describeStop, drawCourse, explainMissing } from './over-time.ts'

const COLUMNS = [{ name: 'day', type: 'Date' }, ...['change, %', 'at least', 'at most'].map((name) => ({ name, type: 'Float64' }))]

/** The always-valid interval at the end of each day: what one would have concluded then, as a picture and as a table. */
export function IntervalOverTime ({ result }: { result: Results }) {
  const others = result.variants.filter(({ key }) => key !== result.baseline)
  return (
    <>
      <h3>Over time</h3>
      <p class='hint'>
        The interval that holds however often one looks, as it was at the end of each day; those of early days may be wider than the picture.
        Once it excludes zero, you may stop.
        {others.length > 1 && ` Each of the ${others.length} variants is judged by itself: a chance of one in twenty to be wrong, each.`}
      </p>
      {others.map(({ key }) => <Course key={key} variant={key} result={result} />)}
      <DayTable result={result} />
    </>
  )
}

function Course ({ variant, result: { series, baseline } }: { variant: string, result: Results }) {
  const rows = drawCourse(series, variant)
  const name = showText(variant, 40)
  if (rows === null) {
    const last = series.at(-1)?.variants.find(({ key }) => key === variant)
    return <p class='hint'>{name}: no day has an interval yet: {explainMissing(last?.missing_interval ?? null, showText(baseline, 40))}.</p>
  }
  return (
    <section aria-label={`${name} over time`}>
      <p>{name}: {describeStop(series, variant, showText(baseline, 40))}</p>
      <Chart columns={COLUMNS} rows={rows} along='time' chosen={{ kind: 'line', x: 0, y: [1, 2, 3] }} />
    </section>
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
