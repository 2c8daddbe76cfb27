import { useState } from 'preact/hooks'
import type { Schema } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { FormDialog } from '../confirm.tsx'
import { CohortFields, ComparisonFields } from '../flags/filter-editor.tsx'
import type { PropertyFilter } from '../flags/flag-filters.ts'
import { Parts } from '../frame/parts.tsx'
import { NameLists, type Names, PropertyField, useNames } from '../questions/event-fields.tsx'
import { NumberField, Select } from '../states.tsx'

/** A condition of a cohort, as the API takes it. */
type Part = PropertyFilter & { negation?: boolean, time_value?: number, time_interval?: string, operator_value?: number }

const DID: Part = { type: 'behavioral', key: '', value: 'performed_event_multiple', operator: 'gte', operator_value: 1, time_value: 30, time_interval: 'day' }
const BLANKS: Record<string, Part> = { did: DID, not: { ...DID, negation: true }, person: { type: 'person', key: '', operator: 'exact', value: '' }, cohort: { type: 'cohort', key: 'id', operator: 'in', value: '' } }
const KINDS = [['did', 'did'], ['not', 'did not'], ['person', 'has the property'], ['cohort', 'is']] as const

const kindOf = ({ type, negation }: Part): string => type === 'behavioral' ? negation === true ? 'not' : 'did' : type ?? 'person'

interface NewCohortProps { path: string, onDone: (made: Schema<'Cohort'>) => void, onClose: () => void }

export function NewCohort ({ path, ...dialog }: NewCohortProps) {
  const [name, setName] = useState('')
  const [by, setBy] = useState('AND')
  const [parts, setParts] = useState<Part[]>([DID])
  const [ids, setIds] = useState('')
  const names = useNames('events', 'personProperties')
  const isList = by === 'list'
  const listed = ids.split('\n').map((id) => id.trim()).filter(Boolean)
  const create = async (): Promise<Schema<'Cohort'>> => await request<Schema<'Cohort'>>(path, {
    method: 'POST',
    body: { name: name.trim(), ...isList ? { distinct_ids: listed } : { filters: { type: by, values: parts } } }
  })
  return (
    <FormDialog title='New cohort' action='Create' isReady={name.trim() !== ''} onConfirm={create} isWide {...dialog}>
      <label>Name <input required value={name} maxLength={200} onInput={(event) => setName(event.currentTarget.value)} /></label>
      <Select label='Persons' value={by} options={[['AND', 'who meet all conditions'], ['OR', 'who meet one of the conditions'], ['list', 'of a list']]} onChange={setBy} />
      <NameLists names={names} />
      {isList
        ? (
          <label>
            Distinct ids of stored persons, one per line
            <textarea required rows={8} value={ids} onInput={(event) => setIds(event.currentTarget.value)} />
          </label>
          )
        : (
          <Parts of={parts} what='condition' least={1} blank={DID} onChange={setParts}>
            {(part, index, set) => <PartFields part={part} label={`Condition ${index + 1}`} names={names} onChange={set} />}
          </Parts>
          )}
    </FormDialog>
  )
}

function PartFields ({ part, label, names, onChange }: { part: Part, label: string, names: Names, onChange: (part: Part) => void }) {
  const kind = kindOf(part)
  return (
    <div class='toolbar' role='group' aria-label={label}>
      <Select label='-Who' value={kind} options={KINDS} onChange={(next) => onChange({ ...BLANKS[next] ?? DID })} />
      {part.type === 'cohort' && <CohortFields filter={part} onChange={onChange} />}
      {kind === 'person' && (
        <>
          <PropertyField label='-Property' value={part.key} names={names} isOfPerson onChange={(key) => onChange({ ...part, key })} />
          <ComparisonFields of={part} onChange={onChange} />
        </>
      )}
      {part.type === 'behavioral' && <BehaviorFields part={part} onChange={onChange} />}
    </div>
  )
}

function BehaviorFields ({ part, onChange }: { part: Part, onChange: (part: Part) => void }) {
  const { key, operator = 'gte', operator_value: times = 1, time_value: length = 30, time_interval: unit = 'day' } = part
  return (
    <>
      <input aria-label='Event' list='event-names' required placeholder='name of an event' value={key} onInput={(event) => onChange({ ...part, key: event.currentTarget.value })} />
      <Select label='-How often' value={operator ?? 'gte'} options={[['gte', 'at least'], ['lte', 'at most'], ['exact', 'exactly']]} onChange={(next) => onChange({ ...part, operator: next })} />
      <NumberField label='-Times' least={0} most={1_000_000} step={1} value={times} onChange={(next) => onChange({ ...part, operator_value: next })}> times in</NumberField>
      <NumberField label='-Length' least={1} most={10_000} step={1} value={length} onChange={(next) => onChange({ ...part, time_value: next })} />
      <Select label='-Unit' value={unit} options={['hour', 'day', 'week', 'month', 'year'].map((each) => [each, `${each}s`] as const)} onChange={(next) => onChange({ ...part, time_interval: next })} />
    </>
  )
}
