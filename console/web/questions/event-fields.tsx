/** Fields that choose events and properties among those that exist, with how often they came. */
import { type Page, request } from '../api-client.ts'
import { ComparisonFields } from '../flags/filter-editor.tsx'
import { OPERATORS, type PropertyFilter, replaceAt } from '../flags/flag-filters.ts'
import { formatCount } from '../format.ts'
import { useFocusOnParts } from '../keep-focus.ts'
import { useLoaded } from '../load.ts'
import { projectId } from '../router.ts'
import { may } from '../session.ts'
import { Label } from '../states.tsx'
import type { EventChoice } from './question-definition.ts'

/** Names with how often they came in 30 days; null: the key may not see them. */
export interface Names { events: Map<string, number> | null, properties: Map<string, number> | null }

/** So many names are offered; others may be typed. */
const OFFERED = 500

interface Definition { name: string, volume_30_day?: number | null }

export function useNames (): Names {
  const project = projectId.value
  const load = async (resource: string, query: object, signal: AbortSignal): Promise<Map<string, number>> => {
    const { results } = await request<Page<Definition>>(`/api/projects/${project}/${resource}/`, { query: { limit: OFFERED, ...query }, signal })
    return new Map(results.map(({ name, volume_30_day: volume }) => [name, volume ?? 0]))
  }
  const names = useLoaded(`names ${project}`, async (signal): Promise<Names> => ({
    events: may('event_definition:read') ? await load('event_definitions', { ordering: '-volume_30_day' }, signal) : null,
    properties: may('property_definition:read') ? await load('property_definitions', { type: 'event' }, signal) : null
  }))
  return names.value ?? { events: null, properties: null }
}

/** The lists that the fields below offer. */
export function NameLists ({ names: { events, properties } }: { names: Names }) {
  return (
    <>
      {events !== null && <datalist id='event-names'>{[...events].map(([name, volume]) => <option key={name} value={name}>{formatCount(volume)} in 30 days</option>)}</datalist>}
      <datalist id='property-names'>{[...properties ?? []].map(([name]) => <option key={name} value={name} />)}</datalist>
    </>
  )
}

export function PropertyField ({ label, value, names, onChange }: { label: string, value: string, names: Names, onChange: (value: string) => void }) {
  const isUnknown = value !== '' && names.properties !== null && names.properties.size < OFFERED && !names.properties.has(value)
  return (
    <label>
      <Label text={label} />
      <input list='property-names' required value={value} onInput={(event) => onChange(event.currentTarget.value)} />
      {isUnknown && <span class='hint'> No event has it.</span>}
    </label>
  )
}

interface EventFieldProps {
  label: string
  value: EventChoice
  names: Names
  /** Whether any event may be meant. */
  mayBeAny?: boolean
  onChange: (value: EventChoice) => void
}

/** An event and its conditions. */
export function EventField ({ label, value, names, mayBeAny = true, onChange }: EventFieldProps) {
  const { event, where } = value
  const list = useFocusOnParts<HTMLDivElement>(where.length)
  const volume = event === null ? undefined : names.events?.get(event)
  return (
    <div ref={list}>
      <div class='toolbar'>
        <label>
          {label}{' '}
          <input
            list='event-names' required={event !== null} disabled={event === null} value={event ?? ''} placeholder={event === null ? 'any event' : 'name of an event'}
            onInput={(input) => onChange({ ...value, event: input.currentTarget.value })}
          />
        </label>
        {mayBeAny && <label><input type='checkbox' checked={event === null} onChange={(input) => onChange({ ...value, event: input.currentTarget.checked ? null : '' })} /> any event</label>}
        {volume !== undefined && <span class='hint numbers'>{formatCount(volume)} in 30 days</span>}
        {event !== null && event !== '' && names.events !== null && names.events.size < OFFERED && volume === undefined && <span class='hint'>Nobody sent an event of this name.</span>}
        <button type='button' data-add onClick={() => onChange({ ...value, where: [...where, { key: '', operator: 'exact', value: '' }] })}>Add a condition<span class='hidden'> to {label}</span></button>
      </div>
      {where.map((filter, index) => (
        <ConditionFields
          key={index} filter={filter} label={`${label}, condition ${index + 1}`} names={names}
          onChange={(next) => onChange({ ...value, where: replaceAt(where, index, next) })}
        />
      ))}
    </div>
  )
}

/** Those of flags that a query has as well. */
const OPERATORS_OF_EVENTS = Object.entries(OPERATORS).filter(([name]) => !/^(?:is_date|semver)/.test(name))

interface ConditionFieldsProps { filter: PropertyFilter, label: string, names: Names, onChange: (filter: PropertyFilter | null) => void }

function ConditionFields ({ filter, label, names, onChange }: ConditionFieldsProps) {
  return (
    <div class='toolbar' role='group' aria-label={label} data-part>
      <PropertyField label='where' value={filter.key} names={names} onChange={(key) => onChange({ ...filter, key })} />
      <ComparisonFields of={filter} operators={OPERATORS_OF_EVENTS} onChange={onChange} />
      <button type='button' onClick={() => onChange(null)}>Remove<span class='hidden'> {label}</span></button>
    </div>
  )
}
