import { formatCount, formatTime, showText } from '../format.ts'
import { type Bar, describeProgress, describeVerdict, type ExperimentResults, formatMetric, formatPercent, type Interval, layOutBars, type Results } from './experiment.ts'

const WIDTH = 640
const ROW = 34

/** The results of an experiment: what to doubt, the verdict, one row a variant, and how it went day by day. */
export function ResultsPicture ({ results }: { results: ExperimentResults }) {
  const { result, last_refresh: at, complete_through: through } = results
  const { text, isDoubtful } = describeVerdict(result)
  const ratio = result.exposures.sample_ratio
  return (
    <>
      <p class={isDoubtful ? 'verdict stopped' : 'verdict'} role='status'>{text}</p>
      <p class='hint'>
        {describeProgress(result)} Computed at {formatTime(at)} UTC
        {typeof through === 'string' && <>; every event accepted before {formatTime(through)} UTC is counted</>}.
      </p>
      <VariantTable result={result} />
      <LiftPicture result={result} />
      <Days result={result} />
      <h3>Split</h3>
      <p class='hint'>
        {ratio === null
          ? 'The flag gives no variant a share.'
          : ratio.variants.map(({ key, exposed, expected }) => `${showText(key, 40)}: ${formatCount(exposed)} of ${formatCount(expected)} expected`).join(', ')}.
        {' '}{formatCount(result.exposures.multiple_variants)} saw several variants and are left out.
      </p>
    </>
  )
}

function VariantTable ({ result }: { result: Results }) {
  return (
    <div class='scroll' role='region' aria-label='Variants' tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope='col'>Variant</th><th scope='col' class='number'>Exposed</th><th scope='col' class='number'>Value</th>
            <th scope='col' class='number'>Against {showText(result.baseline, 40)}</th><th scope='col' class='number'>95 % interval</th>
            <th scope='col' class='number'>To be best</th><th scope='col' class='number'>Expected loss</th><th scope='col' class='number'>Always-valid p</th>
          </tr>
        </thead>
        <tbody>
          {result.variants.map(({ key, exposed, mean, probability, expected_loss: loss, comparison }) => (
            <tr key={key}>
              <td>{showText(key, 60)}</td>
              <td class='number'>{formatCount(exposed)}</td>
              <td class='number'>{formatMetric(result.kind, mean)}</td>
              <td class='number'>
                {comparison === null
                  ? 'baseline'
                  : `${formatPercent(comparison.relative_lift, true)} (${comparison.absolute_lift > 0 ? '+' : ''}${formatMetric(result.kind, comparison.absolute_lift)})`}
              </td>
              <td class='number'>{formatInterval(comparison?.bayesian.relative_interval ?? null)}</td>
              <td class='number'>{formatPercent(probability)}</td>
              <td class='number'>{formatMetric(result.kind, loss)}</td>
              <td class='number'>{comparison?.sequential.p_value?.toPrecision(2) ?? '–'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function formatInterval (interval: Interval | null): string {
  return interval === null ? '–' : `${formatPercent(interval[0], true)} to ${formatPercent(interval[1], true)}`
}

/** Every variant on one axis: the change against the baseline, its interval, and the wider one that holds at every look. */
function LiftPicture ({ result }: { result: Results }) {
  const { bars, from, to } = layOutBars(result)
  if (bars.length === 0) return <p class='hint'>No variant can be compared yet: each needs some people and values.</p>
  const x = (share: number): number => Math.min(WIDTH, Math.max(0, (share - from) / (to - from) * WIDTH))
  const label = bars.map(({ key, lift, credible }) => `${showText(key, 40)} ${formatPercent(lift, true)}, from ${formatInterval(credible)}`).join('; ')
  return (
    <figure class='lift'>
      <svg viewBox={`0 0 ${WIDTH} ${bars.length * ROW + 24}`} role='img' aria-label={`Change against ${showText(result.baseline, 40)}: ${label}`}>
        <line class='zero' x1={x(0)} x2={x(0)} y1='0' y2={bars.length * ROW} />
        {bars.map((bar, index) => <BarRow key={bar.key} bar={bar} y={index * ROW} x={x} />)}
        <text x={x(0)} y={bars.length * ROW + 16} text-anchor='middle'>0 %</text>
        <text x='0' y={bars.length * ROW + 16}>{formatPercent(from, true)}</text>
        <text x={WIDTH} y={bars.length * ROW + 16} text-anchor='end'>{formatPercent(to, true)}</text>
      </svg>
      <figcaption class='hint'>Thick: 95 % of what the data allow. Thin: the interval that holds however often one looks.</figcaption>
    </figure>
  )
}

function BarRow ({ bar, y, x }: { bar: Bar, y: number, x: (share: number) => number }) {
  const { key, lift, credible, sequential } = bar
  const side = credible[0] > 0 ? 'above' : credible[1] < 0 ? 'below' : 'open'
  return (
    <g class={side}>
      <text x='4' y={y + 12}>{showText(key, 40)}</text>
      {sequential !== null && <line class='thin' x1={x(sequential[0])} x2={x(sequential[1])} y1={y + 22} y2={y + 22} />}
      <line class='thick' x1={x(credible[0])} x2={x(credible[1])} y1={y + 22} y2={y + 22} />
      <circle cx={x(lift)} cy={y + 22} r='5' />
    </g>
  )
}

/** The days behind a fold: anyone who stops at the first good day deceives himself, the always-valid p excepted. */
function Days ({ result }: { result: Results }) {
  const others = result.variants.filter(({ key }) => key !== result.baseline)
  return (
    <details>
      <summary>Day by day ({result.series.length} {result.series.length === 1 ? 'day' : 'days'})</summary>
      <div class='scroll' role='region' aria-label='Day by day' tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope='col'>Day</th>
              {others.map(({ key }) => <th key={key} scope='col' class='number'>{showText(key, 40)}: change, always-valid p</th>)}
            </tr>
          </thead>
          <tbody>
            {result.series.map(({ day, variants }) => (
              <tr key={day}>
                <td>{day}</td>
                {others.map(({ key }) => {
                  const point = variants.find((each) => each.key === key)
                  return <td key={key} class='number'>{formatPercent(point?.relative_lift ?? null, true)}, {point?.sequential_p_value?.toPrecision(2) ?? '–'}</td>
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  )
}
