import { formatCount, formatCounted, showText } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { Chart } from '../sql/result-chart.tsx'
import { formatInterval, formatPercent, type Results } from './describe-experiment.ts'
import { concludeDay, describeStop, drawCourse, explainMissing } from './over-time.ts'

const COLUMNS = [{ name: 'day', type: 'Date' }, ...['change, %', 'at least', 'at most'].map((name) => ({ name, type: 'Float64' }))]

/** The change as a line, the ends of its interval as thin ones around a shade. */
const LOOKS = [false, true, true].map((isBefore) => ({ colour: 0, isBefore, partial: [] }))

/** The always-valid interval at the end of each day: what one would have concluded then, as a picture and as a table. */
export function IntervalOverTime ({ result }: { result: Results }) {
  const others = result.variants.filter(({ key }) => key !== result.baseline)
  return (
    <>
      <h3>Over time</h3>
      <p class='hint'>
        The always-valid interval as of the end of each day; early ones may be wider than the chart.
        Once it excludes zero, you may stop.
        {others.length > 1 && ` Each of the ${others.length} variants has its own 5 % risk of a false positive.`}
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
      <Chart columns={COLUMNS} rows={rows} along='time' looks={LOOKS} hasBand chosen={{ kind: 'line', x: 0, y: [1, 2, 3] }} />
    </section>
  )
}

/** The days behind a fold: to stop at the first good day misleads, unless the always-valid numbers say so. */
function DayTable ({ result }: { result: Results }) {
  const others = result.variants.filter(({ key }) => key !== result.baseline)
  const baseline = showText(result.baseline, 40)
  const rows = result.series.flatMap(({ day, variants }) => others.map(({ key }) => ({ day, key, found: variants.find((each) => each.key === key) })))
  return (
    <details>
      <summary>Day by day ({formatCounted(result.series.length, 'day')})</summary>
      <Rows
        label='Day by day' of={rows} columns={[
          ['Day', ({ day }) => day], ['Variant', ({ key }) => showText(key, 40)], ['#Exposed', ({ found }) => formatCount(found?.exposed)],
          [`#Against ${baseline}`, ({ found }) => formatPercent(found?.relative_lift ?? null, true)],
          ['#Always-valid interval', ({ found }) => formatInterval(found?.sequential_relative_interval ?? null)],
          ['#Always-valid p', ({ found }) => found?.sequential_p_value?.toPrecision(2) ?? '–'],
          ['What could be concluded', ({ found }) => concludeDay(found, baseline), 'value']
        ]}
      />
    </details>
  )
}
