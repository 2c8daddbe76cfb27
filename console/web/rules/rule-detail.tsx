import { createDefinitionRequests } from '../frame/definition-requests.ts'
import { COUNTED_DAYS, type DefinitionScreen } from '../frame/definition-screen.tsx'
import { type Column, Rows, SDK_COLUMNS } from '../frame/lists.tsx'
import { formatCount, showText } from '../format.ts'
import { linkTo, projectId } from '../router.ts'
import {
  describePrediction, describeRule, describeState, type EventRule, RULE_LANGUAGE, type RuleCounts, type RulePrediction, type RuleVersion
} from './event-rules.ts'
import { RuleEditor } from './rule-editor.tsx'

export const REQUESTS = createDefinitionRequests<EventRule, RuleVersion, RuleCounts, RulePrediction>('rules', ({ rule }) => rule)

export const RULE_SCREEN: DefinitionScreen<EventRule, RuleVersion, RuleCounts, RulePrediction> = {
  noun: 'rule',
  home: 'rules',
  title: 'Rules',
  requests: REQUESTS,
  language: RULE_LANGUAGE,
  nameOf: ({ name }) => name,
  labels: { name: 'Name, shown in receipts', description: 'Purpose' },
  example: {
    condition: { type: 'AND', values: [{ type: 'event', value: 'order paid' }, { type: 'property', key: 'email', operator: 'ends_with', value: '@example.com' }] },
    actions: [{ type: 'drop' }]
  },
  whenNone: 'No version is active: the rule does nothing.',
  whenDisabled: 'The rule stops working. Events that it would have dropped are stored; events already dropped are not recovered.',
  describe: (rule, active) => `${describeState(rule)}${active === undefined ? '' : `: ${showText(describeRule(active), 1000)}`}`,
  countsTitle: `In ${COUNTED_DAYS} days`,
  describeCounts: (of) => `${formatCount(of?.dropped ?? 0)} dropped, ${formatCount(of?.sampled ?? 0)} sampled out, ${formatCount(of?.changed ?? 0)} changed`,
  Editor: RuleEditor,
  check: {
    hint: 'Effect the draft alone would have had on stored events, as earlier rules left them. Nothing is changed.',
    limit: 100_000
  },
  Found,
  describeVersion: (version) => showText(describeRule(version), 1000),
  describePrediction,
  notesOf: () => ({})
}

function Found ({ prediction }: { prediction: RulePrediction }) {
  const { without_address: withoutAddress, names, libs, samples } = prediction
  const counts: Column<{ events: number, matched: number }>[] = [['#Events', ({ events }) => events], ['#Pass', ({ matched }) => matched]]
  const [byName, byLib] = [names.filter(({ matched }) => matched > 0), libs.filter(({ matched }) => matched > 0)]
  return (
    <>
      <p class={`verdict ${prediction.dropped + prediction.sampled > 0 ? 'waiting' : ''}`}><strong>{describePrediction(prediction)}</strong></p>
      {withoutAddress > 0 && <p class='hint'>{formatCount(withoutAddress)} events have no stored address, so the effect of a condition on it is unknown.</p>}
      <div class='beside'>
        {byName.length > 0 && <Rows label='By event' of={byName} columns={[['Event', ({ event }) => showText(event, 80), 'value'], ...counts]} />}
        {byLib.length > 0 && <Rows label='By SDK' of={byLib} columns={[...SDK_COLUMNS, ...counts]} />}
      </div>
      {samples.length > 0 && (
        <p>
          Matching samples:{' '}
          {samples.map(({ uuid, event }, index) => (
            <span key={uuid}>{index > 0 && ', '}<a {...linkTo(`/projects/${projectId.value}/find?uuid=${uuid}`)} title={uuid}>{showText(event, 40)} <code>…{uuid.slice(-8)}</code></a></span>
          ))}
        </p>
      )}
    </>
  )
}
