import t from 'tap'
import { describeMetric, listSecondaryMetrics, nameOfMetric } from './describe-metric.ts'
import {
  describeAdjustments, describeChanges, describeProgress, type Experiment,
  formatMetric, formatPercent, layOutBars, type Results, statusOf
} from './describe-experiment.ts'
import { decide, describeVerdict } from './verdict.ts'

const NOW = Date.parse('2026-11-22T12:00:00Z')

function build (changes: Partial<Results> = {}): Results {
  return {
    metric: { name: '', kind: 'funnel', steps: [{ event: 'paid' }], property: null },
    kind: 'funnel',
    baseline: 'control',
    leader: 'test',
    significant: true,
    significance_code: 'significant',
    variants: [
      variant('control', null),
      variant('test', {
        relative_lift: 0.2,
        absolute_lift: 0.02,
        bayesian: { relative_interval: [0.1, 0.3], inner_relative_interval: [0.15, 0.25] }
      })
    ],
    role: 'primary',
    correction: null,
    adjustments: { cuped: null, winsorized: null, quantile: null },
    guardrail: null,
    exposures: {
      total: 2000, multiple_variants: 0, multiple_variant_handling: 'exclude', sample_ratio: { mismatch: false, variants: [] }
    },
    sample_size: { total: 8000, remaining_days: 12, minimum_detectable_effect: 5 },
    warnings: [],
    series: [],
    ...changes
  }
}

function variant (key: string, comparison: object | null): Results['variants'][number] {
  const sequential = { p_value: 0.2, relative_interval: [-3, 9] }
  const rest = { sequential }
  return {
    key, exposed: 1000, mean: 0.1, probability: 0.5, expected_loss: 0,
    comparison: comparison === null ? null : { ...rest, ...comparison } as never
  }
}

t.test('an experiment is a draft, planned, running, ended or archived', async (t) => {
  const at = (start: string | null, end: string | null = null, archived = false): string =>
    statusOf({ start_date: start, end_date: end, archived } as Experiment, NOW)

  t.same([at(null), at('2026-12-01T00:00:00Z'), at('2026-11-01T00:00:00Z'), at('2026-11-01T00:00:00Z', '2026-11-20T00:00:00Z')],
    ['draft', 'planned', 'running', 'ended'])
  t.equal(at('2026-11-01T00:00:00Z', null, true), 'archived')
})

t.test('what is to be doubted comes before the verdict', async (t) => {
  t.match(describeVerdict(build()), { text: 'There is a difference. The best is most likely test.', isDoubtful: false })
  t.match(describeVerdict(build({ significant: false, significance_code: 'not_enough_exposure' })), { text: /Too few people/, isDoubtful: false })
  const mismatch = { mismatch: true, variants: [] }
  t.match(describeVerdict(build({ exposures: { total: 9, multiple_variants: 0, multiple_variant_handling: 'exclude', sample_ratio: mismatch } })), { text: /split/, isDoubtful: true })
  t.match(describeVerdict(build({ exposures: { total: 0, multiple_variants: 0, multiple_variant_handling: 'exclude', sample_ratio: null } })), { text: /Nobody/, isDoubtful: true })
  t.equal(describeVerdict(build({ significant: false, significance_code: 'of_later' })).text.split(' ')[0], 'of_later')
})

t.test('the verdict says how large the effect is', async (t) => {
  t.equal(describeVerdict(build()).text,
    'There is a difference. The best is most likely test. test against control: +20.0 % (+2.00 points); with 95 % probability +10.0 to +30.0 %.')
  t.match(describeVerdict(build({ leader: 'control' })).text, /most likely control\. test against control: \+20\.0 %/, 'the baseline leads')
  t.match(describeVerdict(build({ significant: false, significance_code: 'low_win_probability' })).text, /90 % is required\. test against control: \+20/)
  t.notMatch(describeVerdict(build({ significant: false, significance_code: 'not_enough_exposure' })).text, /against/)
  const bayesian = { relative_interval: null, inner_relative_interval: null }
  const variants = [variant('control', null), variant('test', { relative_lift: null, absolute_lift: 3, bayesian })]
  t.match(describeVerdict(build({ kind: 'sum', variants })).text, /test against control: \+3\.$/, 'no ratio to a baseline near zero')
})

t.test('one sentence says what to do now', async (t) => {
  const sentence = (changes: Partial<Results>, isEnded = false): string => decide(build(changes), isEnded).text
  const [control, test] = build().variants
  const likely = [control!, { ...test!, probability: 0.95 }]
  const unclear = { significant: false, significance_code: 'high_p_value' }
  const long = { total: 8000, remaining_days: 126, minimum_detectable_effect: 5 }
  const done = { ...long, total: 2000 }
  t.equal(sentence({ ...unclear, variants: likely, sample_size: long }), 'test is probably better; do not stop yet: 126 days to go at this traffic.')
  t.equal(sentence({ ...unclear, sample_size: long }), 'No difference shown yet, with test ahead; do not stop yet: 126 days to go at this traffic.')
  t.equal(sentence({ sample_size: long }), 'test is better; do not stop yet: 126 days to go at this traffic.', 'significant by chance, perhaps: nobody has waited')
  t.equal(sentence({ sample_size: { ...long, remaining_days: null } }), 'test is better; do not stop yet: 6,000 people to go.')
  t.equal(sentence({ sample_size: done }), 'test is better: it has run as long as planned, so stop now and roll out test to everyone.')
  t.equal(sentence({ ...unclear, sample_size: done }), 'No difference shown yet, with test ahead: it has run as long as planned, so stop now and keep control.')
  const withP = (key: string, p: number) =>
    variant(key, { ...test!.comparison!, sequential: { p_value: 0.001, adjusted_p_value: p, relative_interval: null } })
  const sure = { variants: [control!, withP('test', 0.01)], sample_size: long }
  t.equal(sentence(sure), 'test is better, which is valid at any time: stop now and roll out test to everyone.')
  t.match(sentence({ ...sure, variants: [control!, withP('test', 0.07)] }), /do not stop yet/, 'corrected for other metrics')
  t.match(sentence({ ...sure, leader: 'control', variants: [control!, withP('test', 0.07), withP('worst', 0.01)] }), /do not stop yet/, 'of one of several variants only')
  t.equal(sentence({ leader: 'control', sample_size: done }), 'control is better than what was tried: it has run as long as planned, so stop now and keep control.')
  t.equal(sentence({}, true), 'test is better: roll out test to everyone.')
  t.equal(sentence(unclear, true), 'No difference shown: keep control.')
  t.match(sentence({ significance_code: 'not_enough_exposure', significant: false, sample_size: null }), /^Too few people to say anything; do not stop yet: how long it needs/)
  t.match(sentence({ sample_size: { ...long, total: null } }), /no sample size would detect a change of 5 %: choose another metric/)
  t.same(decide(build({ exposures: { ...build().exposures, total: 0 } }), false).isDoubtful, true)
})

const LONG = { total: 8000, remaining_days: 126, minimum_detectable_effect: 5 }

t.test('no guardrail is passed over: harmed, it decides, and unclear, it is named', async (t) => {
  const guard = (now: string, end: string) => build({
    metric: { ...build().metric, name: 'Refunds' },
    role: 'guardrail',
    guardrail: { margin: 5, goal: 'increase', variants: [{ key: 'test', at_any_time: now, at_the_end: end }] } as never
  })
  const said = (guardrails: Results[] | null, isEnded = false, changes: Partial<Results> = {}) => {
    const { text, choice } = decide(build({ sample_size: LONG, ...changes }), isEnded, guardrails)
    return [text, choice]
  }
  t.same(said([guard('holds', 'holds')], true), ['test is better: roll out test to everyone.', 'test'])
  t.same(said([guard('unclear', 'harmed')], true), ['test is better, but a guardrail is harmed (Refunds): keep control.', 'control'])
  t.same(said([guard('harmed', 'harmed')]), ['test is better, but a guardrail is harmed (Refunds): stop now and keep control.', 'control'])
  t.same(said([guard('unclear', 'harmed')]), ['test is better; do not stop yet: 126 days to go at this traffic.', 'test'], 'harm by one look too early')
  t.match(said([guard('unclear', 'unclear')], true), [/roll out test to everyone, but harm to a guardrail is not ruled out: Refunds\.$/, 'test'])
  const [control, test] = build().variants
  const sequential = { p_value: 0.01, relative_interval: null }
  const sure = { variants: [control!, { ...test!, comparison: { ...test!.comparison!, sequential } }] }
  t.match(said([guard('unclear', 'holds')], false, sure), [/stop now and roll out test to everyone, but harm to a guardrail is not ruled out: Refunds\.$/, 'test'])
  t.same(said(null), ['test is better; wait for the guardrails.', undefined])
  t.match(said(null, true, { leader: 'control' }), [/keep control/, 'control'])
})

t.test('tells what was changed since the launch', async (t) => {
  const describe = (...changes: [string, string[]][]): string =>
    describeChanges({ measured: { changes: changes.map(([at, fields]) => ({ at, fields })) } }, (at) => at)

  t.equal(describe(['launch', []]), '')
  t.equal(describe(['noon', ['filters', 'parameters']], ['dawn', ['feature_flag']], ['launch', []]), 'the metric, parameters at noon; conditions of the flag at dawn')
  t.equal(describe(), '', 'nothing was kept')
})

t.test('secondary metrics are counted and named in every form', async (t) => {
  t.same([[], {}, null, [{}, {}], { metrics: [{}] }, { a: {}, b: { c: 1 } }].map(listSecondaryMetrics),
    [[], [], [], [{}, {}], [{}], [{ name: 'a' }, { name: 'b', c: 1 }]])
  const steps = [{ event: 'a' }, { event: null }]
  t.equal(nameOfMetric({ name: '', kind: 'funnel', steps, property: null }), 'a then any event')
  t.equal(nameOfMetric({ name: '', kind: 'sum', steps: [{ event: 'a' }], property: 'p' }), 'sum of a by p')
  t.equal(nameOfMetric({ name: 'Revenue', kind: 'sum', steps, property: 'p' }), 'Revenue')
})

t.test('says how far it is, or why that is not known', async (t) => {
  t.equal(describeProgress(build()), '2,000 of 8,000 people needed to detect a change of 5 %: 25 %; about 12 days to go.')
  t.match(describeProgress(build({ sample_size: null })), /unknown/)
  t.match(describeProgress(build({ sample_size: { total: null, remaining_days: null, minimum_detectable_effect: 5 } })), /No sample size/)
})

t.test('bars share one span with zero in it; a very wide sequential interval does not stretch it', async (t) => {
  const { bars, from, to } = layOutBars(build())
  t.match(bars, [{ key: 'test', lift: 0.2, credible: [0.1, 0.3], inner: [0.15, 0.25], sequential: [-3, 9] }])
  t.ok(from < 0 && to > 0.3 && to < 1)
  t.same(layOutBars(build({ variants: [variant('control', null)] })).bars, [])
})

t.test('metrics and numbers read as words', async (t) => {
  t.equal(describeMetric({ insight: 'FUNNELS', events: [{ id: 'a' }, { id: 'b' }] }), 'a then b')
  t.equal(describeMetric({ insight: 'TRENDS', events: [{ id: 'a', math: 'sum', math_property: 'p' }] }), 'sum of a by p')
  t.equal(describeMetric({ metric: { kind: 'funnel', steps: ['a', { event: 'b' }] } }), 'a then b')
  t.equal(describeMetric({ metric: { kind: 'mean', event: 'a', property: 'p' } }), 'mean of a by p')
  t.equal(describeMetric({ kind: 'funnel', event: 'a', where: [{ key: 'plan', operator: 'exact', value: 'pro' }] }), 'a where plan is "pro"')
  t.equal(describeMetric({ name: 'Revenue', filters: { events: [{ id: 'a', properties: [{ key: 'p', operator: 'is_set' }] }] } }), 'total of a where p is set')
  t.equal(describeMetric({}), 'nothing yet')
  t.same([formatMetric('funnel', 0.12345), formatMetric('mean', 1234.567), formatMetric('mean', null)], ['12.3 %', '1235', '–'])
  t.same([formatPercent(0.051, true), formatPercent(-0.2, true)], ['+5.10 %', '-20.0 %'])
})

t.test('what was done to the values is said, and nothing else', async (t) => {
  const cuped = { applied: true, reason: null, lookback_days: 14, share_with_history: 0.8, variance_reduction: 0.36 }
  const nothing = { cuped: null, winsorized: null, quantile: null }
  t.equal(describeAdjustments(build()), '')
  t.match(describeAdjustments(build({ adjustments: { ...nothing, cuped } })), /removed 36.0 % of the variance: 80.0 % of the people have a history of 14 days/)
  t.match(describeAdjustments(build({ adjustments: { ...nothing, cuped: { ...cuped, applied: false, reason: 'too_little_history', variance_reduction: null } } })), /not applied/)
  t.match(describeAdjustments(build({ kind: 'sum', adjustments: { ...nothing, winsorized: { value: { lower: null, upper: 99.5 }, denominator: null } } })), /Values are cut to .* to 99.5/)
  t.match(describeAdjustments(build({ correction: { method: 'holm', metrics: 2, comparisons: 3 } })), /corrected for 3 comparisons of 2 primary metrics/)
  t.match(describeAdjustments(build({ guardrail: { margin: 2, goal: 'increase', variants: [{ key: 'test', at_the_end: 'holds', at_any_time: 'unclear' }] } })), /Guardrail of 2 % for test: unclear now, holds if/)
})
