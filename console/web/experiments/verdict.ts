/** The one sentence that says what to do with an experiment now, and the words for what its numbers say. */
import { formatCount, formatCounted } from '../format.ts'
import { formatInterval, formatMetric, formatPercent, type Results } from './describe-experiment.ts'
import { nameOfMetric } from './describe-metric.ts'

export interface Verdict { text: string, isDoubtful: boolean }

/** `choice`: the variant that everybody should get; undefined while that is not known. */
export interface Decision extends Verdict { choice?: string }

/** From here on, a variant is probably the best. */
const PROBABLY = 0.9

/** Limit of the always-valid p-value, corrected for all variants and primary metrics. */
const HOLDS = 0.05

/**
 * What to do now. A planned number of people holds for one look at its end; the always-valid p-values hold at every
 * look, so that they alone allow to stop before.
 *
 * @param guardrails  Results of the guardrails, by which no variant may lose too much; null: not known.
 */
export function decide (result: Results, isEnded: boolean, guardrails: readonly Results[] | null = []): Decision {
  const doubt = findDoubt(result)
  if (doubt !== undefined) return { text: doubt, isDoubtful: true }
  const { baseline, leader, significant, variants, significance_code: code } = result
  const probability = result.variants.find(({ key }) => key === leader)?.probability ?? 0
  const isBaseline = leader === baseline
  const found = code === 'not_enough_exposure'
    ? 'Too few people to say anything'
    : significant || probability >= PROBABLY
      ? `${leader} is ${significant ? '' : 'probably '}better${isBaseline ? ' than what was tried' : ''}`
      : isEnded ? 'No difference shown' : `No difference shown yet, with ${leader} ahead`
  if (guardrails === null && !isBaseline) return { text: `${found}; wait for the guardrails.`, isDoubtful: false }
  const wait = isEnded ? undefined : describeWait(result)
  const named = (state: string): string => (guardrails ?? [])
    .filter(({ guardrail }) => guardrail?.variants.some((each) =>
      each.key === leader && each[wait === undefined ? 'at_the_end' : 'at_any_time'] === state))
    .map(({ metric }) => nameOfMetric(metric)).join(', ')
  const [harmed, unclear] = [named('harmed'), named('unclear')]
  const isGiven = significant && !isBaseline && harmed === ''
  return { text: `${found}${advise()}.`, isDoubtful: false, choice: isGiven ? leader : baseline }

  function advise (): string {
    const outcome = !isGiven ? `keep ${baseline}` : `roll out ${leader} to everyone${unclear === '' ? '' : `, but harm to a guardrail is not ruled out: ${unclear}`}`
    if (harmed !== '') return `, but a guardrail is harmed (${harmed}): ${isEnded ? '' : 'stop now and '}${outcome}`
    if (isEnded) return code === 'not_enough_exposure' ? ': run it again with more people' : `: ${outcome}`
    const compared = variants.filter(({ key }) => isBaseline ? key !== baseline : key === leader)
    const holds = compared.every(({ comparison }) =>
      (comparison?.sequential.adjusted_p_value ?? comparison?.sequential.p_value ?? 1) < HOLDS)
    if (holds && significant) return `, which is valid at any time: stop now and ${outcome}`
    return wait ?? `: it has run as long as planned, so stop now and ${outcome}`
  }
}

/** Undefined: it has run as long as it needs. */
function describeWait ({ sample_size: size, exposures: { total } }: Results): string | undefined {
  if (size === null) return '; do not stop yet: how long it needs is known once the baseline has a value'
  if (size.total === null) return `; no sample size would detect a change of ${size.minimum_detectable_effect} %: choose another metric, or a larger effect`
  if (total >= size.total) return undefined
  return size.remaining_days === null || size.remaining_days <= 0
    ? `; do not stop yet: ${formatCount(size.total - total)} people to go`
    : `; do not stop yet: ${formatCounted(size.remaining_days, 'day')} to go at this traffic`
}

/** Why no number of these can be trusted. */
function findDoubt ({ exposures }: Results): string | undefined {
  if (exposures.total === 0) return 'Nobody has been exposed yet: no $feature_flag_called event of this flag has one of its variants.'
  if (exposures.sample_ratio?.mismatch === true) return 'The observed split differs from that of the flag. Do not trust any number below until this is explained.'
  return undefined
}

const VERDICTS: Record<string, string> = {
  significant: 'There is a difference.',
  not_enough_exposure: 'Too few people to say anything: each variant needs 100.',
  low_win_probability: 'No variant is likely enough to be the best: 90 % is required.',
  high_loss: 'The expected loss from choosing the leader is too high: it must be below 1 %.',
  high_p_value: 'The difference may be due to chance: the p-value must be below 0.05.'
}

/** The verdict first, and what is to be doubted before it. */
export function describeVerdict (result: Results): Verdict {
  const doubt = findDoubt(result)
  if (doubt !== undefined) return { text: doubt, isDoubtful: true }
  const { leader, significant, significance_code: code } = result
  const verdict = VERDICTS[code] ?? code
  const size = code === 'not_enough_exposure' ? '' : ` ${describeSize(result)}`
  return { text: `${significant ? `${verdict} The best is most likely ${leader}.` : verdict}${size}`.trimEnd(), isDoubtful: false }
}

/** How large the effect is: of the leader, or of the most likely one of the others when the baseline leads. */
function describeSize ({ kind, baseline, leader, variants }: Results): string {
  const [best] = variants.filter(({ key }) => key !== baseline).sort((a, b) => b.probability - a.probability)
  const shown = variants.find(({ key }) => key === leader && key !== baseline) ?? best
  if (shown === undefined || shown.comparison === null) return ''
  const { absolute_lift: lift, relative_lift: relative, bayesian } = shown.comparison
  const amount = `${lift > 0 ? '+' : ''}${formatMetric(kind, lift)}`
  const absolute = kind === 'funnel' ? amount.replace(' %', ' points') : amount
  const range = bayesian.relative_interval === null ? '' : `; with 95 % probability ${formatInterval(bayesian.relative_interval)}`
  return `${shown.key} against ${baseline}: ${relative === null ? absolute : `${formatPercent(relative, true)} (${absolute})`}${range}.`
}
