/** Fields that choose events and properties among those that exist, with how often they came. */
import { type Page, request } from '../api-client.ts'
import { CohortFields, ComparisonFields } from '../flags/filter-editor.tsx'
import { OPERATORS, type PropertyFilter, replaceAt } from '../flags/flag-filters.ts'
import { formatCount } from '../format.ts'
import { useFocusOnParts } from '../keep-focus.ts'
import { useLoaded } from '../load.ts'
import { projectId } from '../router.ts'
import { may } from '../session.ts'
import { Label, Select } from '../states.tsx'
import type { EventChoice } from './question-definition.ts'

type Counts = Map<string, number> | null

/** Names with how often they came, events in 30 days and properties ever; null: the key may not see them. */
export interface Names { events: Counts, properties: Counts, personProperties: Counts }

/** Maximum number of suggested names; others can be typed. */
const OFFERED = 500

interface Definition { name: string, volume_30_day?: number | null }

const LISTS = {
  events: ['event_definition:read', 'event_definitions', { ordering: '-volume_30_day' }],
  properties: ['property_definition:read', 'property_definitions', { type: 'event' }],
  personProperties: ['property_definition:read', 'property_definitions', { type: 'person' }]
} as const

/** @param wanted  The lists that the screen offers. */
export function useNames (...wanted: ReadonlyArray<keyof Names>): Names {
  const project = projectId.value
  const names = useLoaded(`names ${project} ${wanted.join(' ')}`, async (signal) => Object.fromEntries(await Promise.all(wanted.map(async (list) => {
    const [scope, resource, query] = LISTS[list]
    if (!may(scope)) return [list, null]
    const path = `/api/projects/${project}/${resource}`
    const { results } = await request<Page<Definition>>(`${path}/`, { query: { limit: OFFERED, ...query }, signal })
    if (list === 'events') return [list, new Map(results.map(({ name, volume_30_day: volume }) => [name, volume ?? 0]))]
    // Names are offered without volumes, too.
    const counted = await request<{ results: { name: string, volume: number }[] }>(`${path}/volumes/`, { query, signal }).catch(() => ({ results: [] }))
    const volumes = new Map(counted.results.map(({ name, volume }) => [name, volume]))
    const all = [...new Set([...volumes.keys(), ...results.map(({ name }) => name)])]
    return [list, new Map(all.map((name) => [name, volumes.get(name) ?? 0]))]
  }))) as Partial<Names>)
  return { events: null, properties: null, personProperties: null, ...names.value }
}

/** The lists that the fields below offer. */
export function NameLists ({ names: { events, properties, personProperties } }: { names: Names }) {
  return (
    <>
      {events !== null && <datalist id='event-names'>{[...events].map(([name, volume]) => <option key={name} value={name}>{formatCount(volume)} in 30 days</option>)}</datalist>}
      <datalist id='property-names'><PropertyOptions of={properties} /></datalist>
      <datalist id='person-property-names'><PropertyOptions of={personProperties} /></datalist>
    </>
  )
}

function PropertyOptions ({ of }: { of: Counts }) {
  return <>{[...of ?? []].map(([name, volume]) => <option key={name} value={name}>{volume > 0 && `${formatCount(volume)} events`}</option>)}</>
}

interface PropertyFieldProps { label: string, value: string, names: Names, isOfPerson?: boolean, onChange: (value: string) => void }

export function PropertyField ({ label, value, names, isOfPerson = false, onChange }: PropertyFieldProps) {
  const known = isOfPerson ? names.personProperties : names.properties
  const isUnknown = value !== '' && known !== null && known.size < OFFERED && !known.has(value)
  return (
    <label>
      <Label text={label} />
      <input list={isOfPerson ? 'person-property-names' : 'property-names'} required placeholder='property' value={value} onInput={(event) => onChange(event.currentTarget.value)} />
      {isUnknown && <span class='hint unknown'> No {isOfPerson ? 'person' : 'event'} has it.</span>}
    </label>
  )
}

interface EventFieldProps {
  label: string
  value: EventChoice
  names: Names
  mayBeAny?: boolean
  withPersons?: boolean
  withCohorts?: boolean
  onChange: (value: EventChoice) => void
}

export function EventField ({ label, value, names, mayBeAny = true, withPersons = false, withCohorts = withPersons, onChange }: EventFieldProps) {
  const { event, where } = value
  const list = useFocusOnParts<HTMLDivElement>(where.length)
  const volume = event === null ? undefined : names.events?.get(event)
  return (
    <div ref={list}>
      <div class='toolbar'>
        <label>
          {label}{' '}
          <input
            list='event-names' required={event !== null} value={event ?? ''} placeholder={event === null ? 'any event' : 'name of an event'}
            onInput={(input) => onChange({ ...value, event: input.currentTarget.value })}
          />
        </label>
        {mayBeAny && <label><input type='checkbox' checked={event === null} onChange={(input) => onChange({ ...value, event: input.currentTarget.checked ? null : '' })} /> any event</label>}
        {(volume !== undefined || names.events === null) && event !== null && event !== '' && <span class='hint numbers volume'>{volume !== undefined && `${formatCount(volume)} in 30 days`}</span>}
        {event !== null && event !== '' && names.events !== null && names.events.size < OFFERED && volume === undefined && <span class='hint unknown'>No event has this name.</span>}
        <button type='button' data-add onClick={() => onChange({ ...value, where: [...where, { key: '', operator: 'exact', value: '' }] })}>Add a condition<span class='hidden'> to {label}</span></button>
      </div>
      {where.map((filter, index) => (
        <ConditionFields
          key={index} filter={filter} label={`${label}, condition ${index + 1}`} names={names} withPersons={withPersons} withCohorts={withCohorts}
          onChange={(next) => onChange({ ...value, where: replaceAt(where, index, next) })}
        />
      ))}
    </div>
  )
}

/** Those of flags that a query has as well. */
const QUERY_OPERATORS = Object.entries(OPERATORS).filter(([name]) => !/^(?:is_date|semver)/.test(name))

const NO_CONDITION: PropertyFilter = { key: '', operator: 'exact', value: '' }
const IN_COHORT: PropertyFilter = { type: 'cohort', key: 'id', operator: 'in', value: '' }

interface ConditionFieldsProps extends Required<Pick<EventFieldProps, 'label' | 'names' | 'withPersons' | 'withCohorts'>> {
  filter: PropertyFilter
  onChange: (filter: PropertyFilter | null) => void
}

function ConditionFields ({ filter, label, names, withPersons, withCohorts, onChange }: ConditionFieldsProps) {
  return (
    <div class='toolbar' role='group' aria-label={label} data-part>
      {(withPersons || withCohorts) && (
        <Select
          label='where' value={filter.type ?? 'event'} options={[['event', 'the event’s'], ...withPersons ? [['person', 'the person’s']] as const : [], ['cohort', 'the person is']]}
          onChange={(type) => onChange(type === 'cohort' ? { ...IN_COHORT } : { ...filter.type === 'cohort' ? NO_CONDITION : filter, type })}
        />
      )}
      {filter.type === 'cohort'
        ? <CohortFields filter={filter} onChange={onChange} />
        : (
          <>
            <PropertyField label={withPersons || withCohorts ? '-Property' : 'where'} value={filter.key} names={names} isOfPerson={filter.type === 'person'} onChange={(key) => onChange({ ...filter, key })} />
            <ComparisonFields of={filter} operators={QUERY_OPERATORS} onChange={onChange} />
          </>
          )}
      <button type='button' onClick={() => onChange(null)}>Remove<span class='hidden'> {label}</span></button>
    </div>
  )
}
