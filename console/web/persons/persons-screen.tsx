import type { Answer } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { formatZoned, showText, zoneLabel } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { useAnswer } from '../load.ts'
import { PAGE, Paged, Pager, Search, TypedFilter, useList, usePages } from '../paging.tsx'
import { linkTo, path, projectId, query, setQuery } from '../router.ts'
import { may } from '../session.ts'
import { Empty, Select, Show, Time } from '../states.tsx'
import { PersonDetail } from './person-detail.tsx'
import type { Person } from './person.ts'

export function PersonsScreen () {
  const [, , , id] = path.value
  return id === undefined ? <PersonList /> : <PersonDetail key={id} id={id} />
}

type Found = Answer<'/api/projects/{project_id}/persons/search'>

type Seen = Answer<'/api/projects/{project_id}/persons/seen'>

function PersonList () {
  const search = (query.value.get('search') ?? '').trim()
  const isBySeen = may('event:read') && query.value.get('order') !== 'new'
  return (
    <section>
      <h1>Persons</h1>
      <p class='hint'>Search by distinct id or its beginning, person id, or a part of an email, name or username.</p>
      <div class='toolbar filters'>
        <Search label='Search persons' />
        {search === '' && may('event:read') && (
          <Select label='Order' value={isBySeen ? '' : 'new'} options={[['', 'last seen first'], ['new', 'newest first']]} onChange={(order) => setQuery({ order })} />
        )}
        {search === '' && isBySeen && <><TypedFilter name='property' label='Property' /><TypedFilter name='value' label='Value' /></>}
      </div>
      {search !== '' ? <Matches search={search} /> : isBySeen ? <LastSeen /> : <Newest />}
    </section>
  )
}

/** Everybody with events, also those who were never identified. */
function LastSeen () {
  const filter = { property: query.value.get('property') ?? '', value: query.value.get('value') ?? '' }
  const seen = usePages(`persons seen ${projectId.value} ${JSON.stringify(filter)}`, async (start, signal) =>
    await request<Seen>(`/api/projects/${projectId.value}/persons/seen`, { query: { ...filter, ...start }, signal }))
  if (seen.value === undefined && seen.error !== undefined) {
    return (
      <>
        <p class='hint' role='status'>Last-seen times are unavailable: {seen.error.message} <button type='button' class='quiet' onClick={seen.reload}>Try again</button></p>
        <Newest />
      </>
    )
  }
  return (
    <Show of={seen} what='Persons'>
      {({ results, searched_from: searchedFrom }) => (
        <>
          <Pager of={seen} words={['Newer', 'Older']}>
            <span class='hint' role='status'>
              {filter.property !== '' && `Only persons ${filter.value === '' ? 'with' : 'whose'} ${showText(filter.property, 80)}${filter.value === '' ? '' : ` is ${showText(filter.value, 80)}`}. `}
              {searchedFrom === null ? filter.property === '' && 'All persons with events, including those known from events only.' : `Only persons seen since ${formatZoned(searchedFrom)}: reading older events takes too long.`}
            </span>
          </Pager>
          {results.length === 0
            ? <Empty>{filter.property === '' ? 'No events are stored yet.' : 'No person with events has this property.'}</Empty>
            : (
              <Rows
                label='Persons' of={results} keyOf={({ uuid }) => uuid} columns={[
                  ['Person', ({ uuid, name, is_known: isKnown }) => <a {...linkTo(`/projects/${projectId.value}/${isKnown ? 'persons/' : 'stored?person='}${uuid}`)}>{showText(name, 80)}</a>, 'wide'],
                  ['Distinct id of the last event', ({ distinct_id: id }) => showText(id, 80), 'wide'],
                  ['Identified', ({ is_identified: isIdentified }) => isIdentified ? 'yes' : 'no'],
                  [`Last seen (${zoneLabel()})`, ({ last_seen: at }) => <Time at={at} />, 'numbers'],
                  ['Events', ({ uuid, name }) => <a {...linkTo(`/projects/${projectId.value}/stored?person=${uuid}`)}>Show<span class='hidden'> the events of {showText(name, 60)}</span></a>]
                ]}
              />
              )}
        </>
      )}
    </Show>
  )
}

function Newest () {
  const persons = useList<Person>(`/api/projects/${projectId.value}/persons/`)
  const empty = <Empty>There are no persons yet: <code>identify</code>, or an event with <code>$set</code>, creates the first.</Empty>
  return <Paged of={persons} what='Persons' empty={empty}>{(results) => <PersonTable persons={results} />}</Paged>
}

function Matches ({ search }: { search: string }) {
  const found = useAnswer<Found>(`/api/projects/${projectId.value}/persons/search`, { search })
  return (
    <Show of={found} what='Persons'>
      {({ matches, searched_properties: isWhole }) => (
        <>
          {!isWhole && <p class='hint' role='status'>Emails and names were not searched, because ClickHouse is unavailable or took too long.</p>}
          {matches.length === 0
            ? <Empty>No person has this distinct id or person id, or this in an email, name or username. A distinct id that only sent plain events has no person: <a {...linkTo(`/projects/${projectId.value}/find?distinct_id=${encodeURIComponent(search)}`)}>find its events</a>.</Empty>
            : <PersonTable persons={matches} by={new Map(matches.map(({ uuid, by }) => [uuid, by]))} />}
          {matches.length >= PAGE && <p class='hint'>Only the first {PAGE} are shown: refine your search.</p>}
        </>
      )}
    </Show>
  )
}

function PersonTable ({ persons, by }: { persons: readonly Omit<Person, 'id' | 'properties'>[], by?: ReadonlyMap<string, string> }) {
  return (
    <Rows
      label='Persons' of={persons} keyOf={({ uuid }) => uuid} columns={[
        by !== undefined && ['Found by', ({ uuid }) => by.get(uuid), 'hint'],
        ['Person', ({ uuid, name, distinct_ids: ids }) => <a {...linkTo(`/projects/${projectId.value}/persons/${uuid}`)}>{showText(name === '' ? ids[0] ?? uuid : name, 80)}</a>, 'wide'],
        ['Distinct ids', ({ distinct_ids: ids }) => `${ids.slice(0, 3).map((id) => showText(id, 60)).join(', ')}${ids.length > 3 ? ' …' : ''}`, 'wide'],
        ['Identified', ({ is_identified: isIdentified }) => isIdentified ? 'yes' : 'no'],
        [`Known since (${zoneLabel()})`, ({ created_at: at }) => <Time at={at} />, 'numbers']
      ]}
    />
  )
}
