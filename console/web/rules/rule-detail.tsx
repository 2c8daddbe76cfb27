import { Ask } from '../confirm.tsx'
import { createDefinitionRequests } from '../frame/definition-requests.ts'
import type { ActivateProps, DefinitionScreen } from '../frame/definition-screen.tsx'
import { formatAgo, formatCount, showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { linkTo, projectId } from '../router.ts'
import { Table } from '../states.tsx'
import {
  describePrediction, describeRule, describeState, type EventRule, RULE_LANGUAGE, type RuleCounts, type RulePrediction, type RuleVersion
} from './event-rules.ts'
import { RuleEditor } from './rule-editor.tsx'

export const REQUESTS = createDefinitionRequests<EventRule, RuleVersion, RuleCounts, RulePrediction>('rules', ({ rule }) => rule)

export const RULE_SCREEN: DefinitionScreen<EventRule, RuleVersion, RulePrediction> = {
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
  Facts,
  Editor: RuleEditor,
  check: {
    hint: 'Effect the draft alone would have had on stored events, as earlier rules left them. Nothing is changed.',
    limit: 100_000
  },
  Found,
  Activate,
  notesOf: () => ({})
}

/** The enforced version and its effects. */
function Facts ({ definition: rule, versions }: { definition: EventRule, versions: readonly RuleVersion[] }) {
  const enforced = versions.find(({ version }) => version === rule.active_version)
  const counts = useLoaded(`rule counts ${projectId.value}`, async (signal) => await REQUESTS.counts(7, signal))
  const found = counts.value?.get(rule.id)
  return (
    <dl class='facts'>
      <div>
        <dt>Enforced</dt>
        <dd>{describeState(rule)}{enforced !== undefined && `: ${showText(describeRule(enforced), 1000)}`}</dd>
      </div>
      <div>
        <dt>In 7 days</dt>
        <dd>{counts.error !== undefined
          ? `unknown: ${counts.error.message}`
          : counts.value !== undefined && `${formatCount(found?.dropped ?? 0)} dropped, ${formatCount(found?.sampled ?? 0)} sampled out, ${formatCount(found?.changed ?? 0)} changed`}
        </dd>
      </div>
      <div><dt>Newest</dt><dd>version {rule.version}, changed {formatAgo(rule.updated_at, Date.now())}</dd></div>
    </dl>
  )
}

function Activate ({ definition, versions, version, prediction, onClose, onDone }: ActivateProps<EventRule, RuleVersion, RulePrediction>) {
  const content = versions.find((each) => each.version === version)
  const activate = async () => await REQUESTS.change(definition.id, { active_version: version })
  return (
    <Ask title='Activate' action={`Activate version ${version}`} onClose={onClose} onConfirm={activate} onDone={onDone}>
      {content !== undefined && <p>{showText(describeRule(content), 1000)}</p>}
      <p class='hint'>{prediction !== undefined && version === definition.version ? describePrediction(prediction) : 'This version has not been checked against stored events here.'}</p>
    </Ask>
  )
}

function Found ({ prediction }: { prediction: RulePrediction }) {
  const { without_address: withoutAddress, names, libs, samples } = prediction
  return (
    <>
      <p class={`verdict ${prediction.dropped + prediction.sampled > 0 ? 'waiting' : ''}`}><strong>{describePrediction(prediction)}</strong></p>
      {withoutAddress > 0 && <p class='hint'>{formatCount(withoutAddress)} events have no stored address, so the effect of a condition on it is unknown.</p>}
      <div class='beside'>
        <Counts label='By event' head={['Event']} rows={names.map(({ event, ...counts }) => ({ cells: [event], ...counts }))} />
        <Counts label='By SDK' head={['SDK', 'Version']} rows={libs.map(({ lib, lib_version: version, ...counts }) => ({ cells: [lib === '' ? 'not said' : lib, version], ...counts }))} />
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

interface CountsProps {
  label: string
  head: readonly string[]
  rows: readonly { cells: readonly string[], events: number, matched: number }[]
}

/** Groups of events, with how many of them match; groups without any match are left out. */
function Counts ({ label, head, rows }: CountsProps) {
  const shown = rows.filter(({ matched }) => matched > 0)
  if (shown.length === 0) return null
  return (
    <Table label={label} head={[...head, '#Events', '#Pass']}>
      {shown.map(({ cells, events, matched }) => (
        <tr key={cells.join(' ')}>
          {cells.map((cell, index) => <td key={index} class='value'>{showText(cell, 80)}</td>)}
          <td class='number'>{formatCount(events)}</td><td class='number'>{formatCount(matched)}</td>
        </tr>
      ))}
    </Table>
  )
}
