import { useState } from 'preact/hooks'
import type { ConditionExplanation, FilterExplanation, FlagExplanation, RolloutExplanation } from '../../../engines/flags/explain-flag.ts'
import { ApiError, request } from '../api-client.ts'
import { useAction } from '../confirm.tsx'
import { showText } from '../format.ts'
import { projectId } from '../router.ts'
import { Form } from '../states.tsx'
import { describeFilter, type FlagDefinition } from './flag-filters.ts'
import { readJsonOrText } from '../frame/json-text.ts'

const SOURCES: Record<FilterExplanation['source'], string> = {
  sent: 'sent with the request', stored: 'stored', flag: 'the value of that flag', missing: 'not there', not_read: 'could not be read'
}

/** Computes flags for somebody and shows why. @param draft  The only flag to test, as it is drafted; absent: all. */
export function TestAs ({ draft }: { draft?: FlagDefinition }) {
  const [distinctId, setDistinctId] = useState('')
  const [properties, setProperties] = useState('')
  const [groups, setGroups] = useState('')
  const [results, setResults] = useState<FlagExplanation[]>()
  const { run, failure } = useAction(async () => setResults(await testFlags({
    distinct_id: distinctId,
    ...readObject('person_properties', properties),
    ...readObject('groups', groups),
    ...draft !== undefined && { draft, flag_keys: [draft.key] }
  })))
  return (
    <>
      <Form class='test-as' onSubmit={run}>
        <label>Distinct id <input required value={distinctId} onInput={(event) => setDistinctId(event.currentTarget.value)} /></label>
        <label>Person properties (JSON) <input placeholder='{"plan": "pro"}' value={properties} onInput={(event) => setProperties(event.currentTarget.value)} /></label>
        <label>Groups (JSON) <input placeholder='{"company": "acme"}' value={groups} onInput={(event) => setGroups(event.currentTarget.value)} /></label>
        <button type='submit' class='primary'>Test</button>
      </Form>
      {failure}
      <Explanations of={results} />
    </>
  )
}

export async function testFlags (body: object): Promise<FlagExplanation[]> {
  return (await request<{ results: FlagExplanation[] }>(`/api/projects/${projectId.value}/feature_flags/test`, { method: 'POST', body })).results
}

/** Flags for somebody, each with its value and why. */
export function Explanations ({ of }: { of: readonly FlagExplanation[] | undefined }) {
  return (
    <div role='status'>
      {of?.length === 0 && <p class='hint'>There are no flags.</p>}
      {of?.map((flag) => <Explained key={flag.key} flag={flag} isOnly={of.length === 1} />)}
    </div>
  )
}

/** @throws {ApiError} if it is not a JSON object. */
function readObject (name: string, text: string): Record<string, unknown> {
  if (text.trim() === '') return {}
  const value = readJsonOrText(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new ApiError(0, 'invalid_input', `${name.replace('_', ' ')} must be a JSON object`)
  return { [name]: value }
}

function Explained ({ flag, isOnly }: { flag: FlagExplanation, isOnly: boolean }) {
  // Hundreds of flags at once: what nobody opens is not drawn.
  const [isOpen, setOpen] = useState(isOnly)
  return (
    <details open={isOnly} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <strong>{showText(flag.key, 60)}</strong> is <code>{flag.failed ? 'not computed' : String(flag.value)}</code>{' '}
        <span class='hint'>{flag.reason.description}</span>
      </summary>
      {isOpen && flag.payload !== undefined && <p>Payload: <code>{showText(JSON.stringify(flag.payload), 400)}</code></p>}
      {isOpen && (
        <ol class='conditions'>
          {flag.conditions.map((condition, index) =>
            <ExplainedConditionItem key={index} condition={condition} decides={flag.reason.condition_index === index} />)}
        </ol>
      )}
    </details>
  )
}

function ExplainedConditionItem ({ condition, decides }: { condition: ConditionExplanation, decides: boolean }) {
  const { result, value, filters, rollout } = condition
  return (
    <li>
      <p>
        {result === 'condition_match' ? <>Matches: <code>{String(value)}</code></> : result === null ? 'Unknown: stored properties could not be read' : 'Does not match'}
        {decides && <strong> · decides</strong>}
      </p>
      <ul>
        {filters.map((filter, index) => <ExplainedFilter key={index} filter={filter} />)}
        <li>{describePlace(rollout, result)}</li>
      </ul>
    </li>
  )
}

function ExplainedFilter ({ filter }: { filter: FilterExplanation }) {
  const { passes, source } = filter
  const outcome = passes === null ? 'unknown' : passes ? 'passes' : 'does not pass'
  return (
    <li>
      <span aria-hidden>{passes === null ? '?' : passes ? '✓' : '✗'}</span><span class='hidden'>{outcome}:</span> {showText(describeFilter(filter), 200)}{' '}
      <span class='hint'>
        {'seen' in filter && <>saw <code>{showText(JSON.stringify(filter.seen) ?? '', 120)}</code>, </>}
        {SOURCES[source]}
      </span>
    </li>
  )
}

function describePlace ({ percentage, identifier, place, variant_place: variantPlace }: RolloutExplanation, result: string | null): string {
  if (identifier === null || place === null) return 'The request has no identifier to place in the rollout.'
  const at = `${showText(identifier, 60)} is at ${place.toFixed(2)} of 100`
  const side = place <= percentage ? `within the rollout of ${percentage} %` : `outside of the rollout of ${percentage} %`
  const among = variantPlace === null || result !== 'condition_match' ? '' : `; among the variants at ${variantPlace.toFixed(2)}`
  return `${at}: ${side}${among}`
}
