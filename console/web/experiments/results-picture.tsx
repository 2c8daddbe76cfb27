import type { ComponentChildren } from 'preact'
import { formatCount, formatZoned, showText } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { useWidth } from '../measure-width.ts'
import { Time } from '../states.tsx'
import { nameOfMetric } from './describe-metric.ts'
import { type Bar, describeAdjustments, describeChanges, describeProgress, type ExperimentResults, formatInterval, formatMetric, formatPercent, layOutBars, type Results } from './describe-experiment.ts'
import { IntervalOverTime } from './interval-over-time.tsx'
import { describeVerdict, type Verdict } from './verdict.ts'

const ROW = 38

/** The results of an experiment: what to do now, one row a variant; what that follows from opens. */
export function ResultsPicture ({ results, decision, children }: { results: ExperimentResults, decision: Verdict, children?: ComponentChildren }) {
  const { result, last_refresh: at, complete_through: through, measured, feature_flag_key: key } = results
  const ratio = result.exposures.sample_ratio
  const changes = describeChanges(results, formatZoned)
  const detail = describeVerdict(result)
  return (
    <>
      <VerdictOf of={decision} result={result} />
      {children}
      <VariantTable result={result} label='Variants' />
      <LiftPicture result={result} />
      <details>
        <summary>More: why, over time, the split</summary>
        {!detail.isDoubtful && <p>{showText(detail.text, 1000)}</p>}
        <Adjustments result={result} />
        <p class='hint'>
          {describeProgress(result)} Computed at <Time at={at} isZoned />
          {typeof through === 'string' && <>; every event accepted before <Time at={through} isZoned /> is counted</>}.
          {measured.feature_flag_key !== key && <> The results are for the flag as it was, with the key {showText(measured.feature_flag_key, 60)}.</>}
          {changes !== '' && <> Changed since the launch: {changes}.</>}
        </p>
        <IntervalOverTime result={result} />
        <h3>Split</h3>
        <p class='hint'>
          {ratio === null
            ? 'The flag assigns no variants.'
            : ratio.variants.map(({ key, exposed, expected }) => `${showText(key, 40)}: ${formatCount(exposed)} of ${formatCount(expected)} expected`).join(', ')}.
          {' '}{formatCount(result.exposures.multiple_variants)} saw several variants and {result.exposures.multiple_variant_handling === 'first_seen' ? 'count for the first' : 'are left out'}.
        </p>
      </details>
    </>
  )
}

/** One metric by itself: the verdict, its variants and their intervals. */
export function MetricPicture ({ result }: { result: Results }) {
  return (
    <>
      <VerdictOf of={describeVerdict(result)} result={result} />
      <Adjustments result={result} />
      <VariantTable result={result} label={`Variants: ${showText(nameOfMetric(result.metric), 100)}`} />
      <LiftPicture result={result} />
    </>
  )
}

function VerdictOf ({ of: { text, isDoubtful }, result }: { of: Verdict, result: Results }) {
  return (
    <>
      <p class={isDoubtful ? 'verdict stopped' : 'verdict'} role='status'>{showText(text, 1000)}</p>
      {result.warnings.map(({ detail }) => <p key={detail} class='verdict waiting' role='status'>{showText(detail, 600)}</p>)}
    </>
  )
}

function Adjustments ({ result }: { result: Results }) {
  const adjustments = describeAdjustments(result)
  return adjustments === '' ? null : <p class='hint'>{showText(adjustments, 1000)}</p>
}

export function VariantTable ({ result, label }: { result: Results, label: string }) {
  return (
    <Rows
      label={label} class='dense' of={result.variants} keyOf={({ key }) => key} columns={[
        ['Variant', ({ key }) => showText(key, 60)], ['#Exposed', ({ exposed }) => exposed], ['#Value', ({ mean }) => formatMetric(result.kind, mean)],
        [`#Against ${showText(result.baseline, 40)}`, ({ comparison }) => comparison === null
          ? 'baseline'
          : `${formatPercent(comparison.relative_lift, true)} (${comparison.absolute_lift > 0 ? '+' : ''}${formatMetric(result.kind, comparison.absolute_lift)})`],
        ['#50 % interval', ({ comparison }) => formatInterval(comparison?.bayesian.inner_relative_interval ?? null)],
        ['#95 % interval', ({ comparison }) => formatInterval(comparison?.bayesian.relative_interval ?? null)],
        ['#Probability of being best', ({ probability }) => formatPercent(probability)],
        ['#Expected loss', ({ expected_loss: loss }) => formatMetric(result.kind, loss)],
        ['#Always-valid p', ({ comparison }) => (comparison?.sequential.adjusted_p_value ?? comparison?.sequential.p_value)?.toPrecision(2) ?? '–']
      ]}
    />
  )
}

/** Every variant on one axis: the change against the baseline, its intervals, and the wider one that holds at every look. */
function LiftPicture ({ result }: { result: Results }) {
  if (layOutBars(result).bars.length === 0) return <p class='hint'>No variant can be compared yet: each needs some people and values.</p>
  return <Bars result={result} />
}

function Bars ({ result }: { result: Results }) {
  const { box, width } = useWidth()
  const { bars, from, to } = layOutBars(result)
  const x = (share: number): number => Math.min(width, Math.max(0, (share - from) / (to - from) * width))
  // A label at the end gives way to the one of zero.
  const hasRoom = (end: number): boolean => Math.abs(x(0) - end) > 80
  const label = bars.map(({ key, lift, credible }) => `${showText(key, 40)} ${formatPercent(lift, true)}, from ${formatInterval(credible)}`).join('; ')
  return (
    <figure class='lift' ref={box}>
      <svg width={width} height={bars.length * ROW + 24} viewBox={`0 0 ${width} ${bars.length * ROW + 24}`} role='img' aria-label={`Change against ${showText(result.baseline, 40)}: ${label}`}>
        <line class='zero' x1={x(0)} x2={x(0)} y1='0' y2={bars.length * ROW} />
        {bars.map((bar, index) => <BarRow key={bar.key} bar={bar} y={index * ROW} x={x} isIncreaseGood={result.metric.is_increase_good !== false} />)}
        <text x={x(0)} y={bars.length * ROW + 16} text-anchor='middle'>0 %</text>
        {hasRoom(0) && <text x='0' y={bars.length * ROW + 16}>{formatPercent(from, true)}</text>}
        {hasRoom(width) && <text x={width} y={bars.length * ROW + 16} text-anchor='end'>{formatPercent(to, true)}</text>}
      </svg>
      <figcaption class='hint'>
        Thickest: the true change with 50 % probability. Thick: with 95 %. Thin: the always-valid interval.
      </figcaption>
    </figure>
  )
}

function BarRow ({ bar, y, x, isIncreaseGood }: { bar: Bar, y: number, x: (share: number) => number, isIncreaseGood: boolean }) {
  const { key, lift, credible, inner, sequential } = bar
  const isOpen = credible[0] <= 0 && credible[1] >= 0
  const side = isOpen ? 'open' : (credible[0] > 0) === isIncreaseGood ? 'better' : 'worse'
  return (
    <g class={side}>
      <text x='4' y={y + 12}>{showText(key, 40)}</text>
      {sequential !== null && <line class='thin' x1={x(sequential[0])} x2={x(sequential[1])} y1={y + 25} y2={y + 25} />}
      <line class='thick' x1={x(credible[0])} x2={x(credible[1])} y1={y + 25} y2={y + 25} />
      {inner !== null && <line class='inner' x1={x(inner[0])} x2={x(inner[1])} y1={y + 25} y2={y + 25} />}
      <circle cx={x(lift)} cy={y + 25} r='3' />
    </g>
  )
}
