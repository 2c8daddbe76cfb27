/** How results of an experiment are computed, how long it has to run, and its holdout. */
import { useState } from 'preact/hooks'
import { fieldsOf, itemsOf } from '../../../engines/fields.ts'
import type { Answer } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { FormDialog } from '../confirm.tsx'
import { useCohortNames } from '../flags/cohorts.ts'
import { formatCount, showText } from '../format.ts'
import { withTouched } from '../frame/change-stored.ts'
import { Rows } from '../frame/lists.tsx'
import { useAnswer } from '../load.ts'
import { EventField, NameLists, useNames } from '../questions/event-fields.tsx'
import { EMPTY_EVENT } from '../questions/question-definition.ts'
import { projectId } from '../router.ts'
import { Checkbox, NumberField, Select, Show } from '../states.tsx'
import { type Experiment, formatPercent, type Results } from './describe-experiment.ts'
import { VariantTable } from './results-picture.tsx'

const variantsOf = ({ feature_flag: { filters } }: Experiment): string[] =>
  itemsOf(fieldsOf(fieldsOf(filters)['multivariate'])['variants']).map((variant) => String(fieldsOf(variant)['key']))

/** Who counts and for what: the parameters that results obey. Others stay as they are. */
export function AnalysisDialog ({ experiment, path, onClose, onDone }: { experiment: Experiment, path: string, onClose: () => void, onDone: () => void }) {
  const [before] = useState(fieldsOf(experiment.parameters))
  const [parameters, setParameters] = useState(before)
  const names = useNames('events', 'properties')
  useCohortNames()
  const [criteria, stats] = [fieldsOf(parameters['exposure_criteria']), fieldsOf(parameters['stats_config'])]
  const [cuped, exposure] = [fieldsOf(stats['cuped']), criteria['exposure_config'] ?? null]
  const set = (fields: object): void => setParameters({ ...parameters, ...fields })
  const setStats = (fields: object): void => set({ stats_config: { ...stats, ...fields } })
  const setCriteria = (fields: object): void => set({ exposure_criteria: { ...criteria, ...fields } })
  const { event, properties } = fieldsOf(exposure)
  const excluded = itemsOf(parameters['excluded_variants'])
  const variants = variantsOf(experiment)
  const save = async () => {
    const stored = await request<Experiment>(path)
    return await request(path, { method: 'PATCH', body: { parameters: withTouched(fieldsOf(stored.parameters), before, parameters) } })
  }
  return (
    <FormDialog title='Analysis' action='Save' onConfirm={save} onDone={onDone} onClose={onClose} isWide>
      <NameLists names={names} />
      <Select
        label='Compare with' value={String(stats['baseline_variant_key'] ?? '')} options={[['', 'control, or the first'], ...variants.map((key) => [key, showText(key, 60)] as const)]}
        onChange={(key) => setStats({ baseline_variant_key: key === '' ? null : key })}
      />
      {variants.map((key) => (
        <Checkbox
          key={key} label={`Leave out ${showText(key, 60)}`} isOn={excluded.includes(key)}
          onChange={(isOn) => set({ excluded_variants: isOn ? [...excluded, key] : excluded.filter((each) => each !== key) })}
        />
      ))}
      <Checkbox
        label='Persons are exposed by an event other than the flag call' isOn={exposure !== null}
        onChange={(isOn) => setCriteria({ exposure_config: isOn ? { event: '', properties: [] } : null })}
      />
      {exposure !== null && (
        <EventField
          label='Exposure' mayBeAny={false} withCohorts value={{ ...EMPTY_EVENT, event: String(event ?? ''), ...Array.isArray(properties) && { where: properties } }} names={names}
          onChange={(next) => setCriteria({ exposure_config: { ...fieldsOf(exposure), event: next.event, properties: next.where } })}
        />
      )}
      <Select
        label='Persons who saw several variants' value={String(criteria['multiple_variant_handling'] ?? 'exclude')} options={[['exclude', 'are left out'], ['first_seen', 'count for the first one']]}
        onChange={(handling) => setCriteria({ multiple_variant_handling: handling })}
      />
      <Checkbox label='Compare with the same metric before the exposure (CUPED)' isOn={cuped['enabled'] === true} onChange={(enabled) => setStats({ cuped: { ...cuped, enabled } })} />
      {cuped['enabled'] === true && (
        <NumberField label='Days before' least={1} most={90} step={1} value={Number(cuped['lookback_days'] ?? 14)} onChange={(days) => setStats({ cuped: { ...cuped, lookback_days: days } })} />
      )}
    </FormDialog>
  )
}

/** The size and length that the experiment needs, by what people did lately. */
export function Plan ({ path }: { path: string }) {
  const plan = useAnswer<Answer<'/api/projects/{project_id}/experiments/{id}/plan'>>(`${path}/plan`)
  return (
    <>
      <h2>Size and length</h2>
      <Show of={plan} what='Size and length'>
        {({ people, population, days, minimum_detectable_effect: effect, variance_reduction: reduction, without_cuped: without, with_cuped: reduced }) => (
          <>
            <p class='hint'>To see a change of {effect} %, by {formatCount(people)} {population} persons of the last {days} days.</p>
            <Rows
              label='Size and length' of={[['without CUPED', without], [`with CUPED (variance ${formatPercent(reduction)} lower)`, reduced]] as const}
              columns={[['-Method', ([name]) => name], ['#Persons', ([, size]) => formatCount(size?.total)], ['#Days', ([, size]) => formatCount(size?.running_days)]]}
            />
          </>
        )}
      </Show>
    </>
  )
}

/** People in the holdout of the flag against everybody else: what all flags that have it do together. */
export function Holdout ({ experiment }: { experiment: Experiment }) {
  const { holdout, holdout_groups: older } = fieldsOf(experiment.feature_flag.filters)
  const id = fieldsOf(holdout)['id'] ?? /^holdout-(.+)/.exec(String(fieldsOf(itemsOf(older)[0])['variant']))?.[1]
  return id === undefined ? null : <Measured id={String(id)} metric={JSON.stringify(experiment.filters)} />
}

function Measured ({ id, metric }: { id: string, metric: string }) {
  const measured = useAnswer<{ flags: string[], result: Results }>(`/api/projects/${projectId.value}/experiments/holdouts/${encodeURIComponent(id)}`, { metric })
  return (
    <>
      <h2>Holdout {showText(id, 40)}</h2>
      <Show of={measured} what='The holdout'>
        {({ flags, result }) => (
          <>
            <p class='hint'>Everybody outside of the holdout, with all its flags: {showText(flags.join(', '), 300)}. The last 28 days.</p>
            <VariantTable result={result} label='Holdout' />
          </>
        )}
      </Show>
    </>
  )
}
