import { toQuery } from '../api-client.ts'
import { showText } from '../format.ts'
import { EventNames, TypedFilter } from '../paging.tsx'
import { query, setQuery } from '../router.ts'
import { may } from '../session.ts'
import { Select } from '../states.tsx'
import { StoredEvents } from './stored-events.tsx'

const PERIODS = [['', 'any time'], ['1', 'the last hour'], ['24', 'the last day'], ['168', '7 days'], ['720', '30 days']] as const

/** The parameters of the address that go to the API as they are. */
const FILTERS = ['event', 'distinct_id', 'property', 'value', 'person', 'group_type', 'group_key'] as const

/** What is stored, newest first, by whatever one knows of it. */
export function StoredScreen () {
  const parameter = (name: string): string => query.value.get(name) ?? ''
  const filter = Object.fromEntries(FILTERS.map((name) => [name, parameter(name)]))
  const group = parameter('group_type')
  return (
    <section>
      <h1>Stored events</h1>
      <p class='hint'>Stored events as analysts see them, by event time, newest first; each event once.</p>
      <div class='toolbar filters'>
        <TypedFilter name='event' label='Event' list='event-names' />
        <TypedFilter name='distinct_id' label='Distinct id' />
        <TypedFilter name='property' label='Property' />
        <TypedFilter name='value' label='Value' />
        <Select label='In' value={parameter('hours')} options={PERIODS} onChange={(value) => setQuery({ hours: value })} />
        {may('event_definition:read') && <EventNames search={parameter('event')} />}
      </div>
      {parameter('person') !== '' && <Only what={`of the person ${parameter('person')}`} names={['person']} />}
      {group !== '' && <Only what={`of the ${group} ${parameter('group_key')}`} names={['group_type', 'group_key']} />}
      <StoredEvents key={toQuery(filter)} filter={filter} hours={Number(parameter('hours'))} />
    </section>
  )
}

function Only ({ what, names }: { what: string, names: readonly string[] }) {
  return (
    <p>
      Only those {showText(what)}.{' '}
      <button type='button' class='quiet' onClick={() => setQuery(Object.fromEntries(names.map((name) => [name, ''])))}>Show all</button>
    </p>
  )
}
