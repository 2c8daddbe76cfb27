import { type AskedEvents, type CheckFollower, StoredCheck } from '../drafts/stored-check.tsx'
import { formatCount, showText } from '../format.ts'
import { linkTo, projectId } from '../router.ts'
import { describePrediction, type RulePrediction } from './event-rules.ts'
import type { RuleDraft } from './rule-draft.ts'
import { checkRule } from './rule-requests.ts'

interface RuleCheckProps {
  id: number
  draft: RuleDraft
  /** What was found for the draft as it is; undefined: it was not checked yet. */
  prediction: RulePrediction | undefined
  onPrediction: (prediction: RulePrediction | undefined) => void
}

/** Says what the draft would have done with stored events. */
export function RuleCheck ({ id, draft, prediction, onPrediction }: RuleCheckProps) {
  const check = async (events: AskedEvents, follower: CheckFollower): Promise<void> => {
    const content = draft.read()
    if (content === undefined) return
    onPrediction(undefined)
    onPrediction(await draft.explain(async () => await checkRule(id, { ...content, ...events }, follower)))
  }
  return (
    <StoredCheck
      text={draft.text} limit={100_000} check={check}
      hint='What the draft alone would have done with events that are stored. Stored events show what rules before have left of them. Nothing is changed.'
    >
      {prediction !== undefined && <Found prediction={prediction} />}
    </StoredCheck>
  )
}

function Found ({ prediction }: { prediction: RulePrediction }) {
  const { without_address: withoutAddress, names, libs, samples } = prediction
  return (
    <>
      <p class={`verdict ${prediction.dropped + prediction.sampled > 0 ? 'waiting' : ''}`}><strong>{describePrediction(prediction)}</strong></p>
      {withoutAddress > 0 && <p class='hint'>{formatCount(withoutAddress)} events have no stored address: what the rule does with them by their address cannot be said.</p>}
      <div class='beside'>
        <Counts label='By event' head={['Event']} rows={names.map(({ event, ...counts }) => ({ cells: [event], ...counts }))} />
        <Counts label='By SDK' head={['SDK', 'Version']} rows={libs.map(({ lib, lib_version: version, ...counts }) => ({ cells: [lib === '' ? 'not said' : lib, version], ...counts }))} />
      </div>
      {samples.length > 0 && (
        <p>
          Some that pass:{' '}
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

/** Groups of events, with how many of them pass; those of which none does are left out. */
function Counts ({ label, head, rows }: CountsProps) {
  const shown = rows.filter(({ matched }) => matched > 0)
  if (shown.length === 0) return null
  return (
    <div class='scroll' role='region' aria-label={label} tabIndex={0}>
      <table>
        <thead><tr>{head.map((title) => <th key={title} scope='col'>{title}</th>)}<th scope='col' class='number'>Events</th><th scope='col' class='number'>Pass</th></tr></thead>
        <tbody>
          {shown.map(({ cells, events, matched }) => (
            <tr key={cells.join(' ')}>
              {cells.map((cell, index) => <td key={index} class='value'>{showText(cell, 80)}</td>)}
              <td class='number'>{formatCount(events)}</td><td class='number'>{formatCount(matched)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
