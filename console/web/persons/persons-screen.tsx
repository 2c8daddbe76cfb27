import { useEffect, useState } from 'preact/hooks'
import type { Answer } from '../../../schema/api-types.ts'
import { request, type Page } from '../api-client.ts'
import { formatTime, showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { PAGE, Pager, Search } from '../paging.tsx'
import { linkTo, path, projectId, query } from '../router.ts'
import { Empty, Show } from '../states.tsx'
import { Deletions } from './delete-person.tsx'
import { PersonDetail } from './person-detail.tsx'

/** The persons of a project, one of them (`/<id>`), and what became of a deletion (`/deletions/<id>`). */
export function PersonsScreen () {
  const [, , , id, of] = path.value
  if (id === 'deletions') return <Deletions key={of} person={of ?? ''} />
  if (id !== undefined) return <PersonDetail key={id} id={id} />
  return <PersonList />
}

type Found = Answer<'/api/projects/{project_id}/persons/search'>

interface ListedPerson { uuid: string, name: string, distinct_ids: string[], is_identified: boolean, created_at: string }

function PersonList () {
  const search = (query.value.get('search') ?? '').trim()
  return (
    <section>
      <h1>Persons</h1>
      <p class='hint'>Everyone who was identified or has a property. Search for a distinct id, its beginning, a person id, an email, a name or a username.</p>
      <div class='toolbar'><Search label='Search persons' /></div>
      {search === '' ? <Newest /> : <Matches search={search} />}
    </section>
  )
}

function Newest () {
  const [offset, setOffset] = useState(0)
  useEffect(() => { setOffset(0) }, [projectId.value])
  const persons = useLoaded(`persons ${projectId.value} ${offset}`, async (signal) =>
    await request<Page<ListedPerson>>(`/api/projects/${projectId.value}/persons/`, { query: { limit: PAGE, offset }, signal }))
  return (
    <Show of={persons} what='Persons'>
      {(page) => page.count === 0
        ? <Empty>There are no persons yet: <code>identify</code>, or an event with <code>$set</code>, makes the first.</Empty>
        : (
          <>
            <Pager page={page} offset={offset} onOffset={setOffset} />
            <Table persons={page.results} />
          </>
          )}
    </Show>
  )
}

function Matches ({ search }: { search: string }) {
  const found = useLoaded(`persons found ${projectId.value} ${search}`, async (signal) =>
    await request<Found>(`/api/projects/${projectId.value}/persons/search`, { query: { search }, signal }))
  return (
    <Show of={found} what='Persons'>
      {({ matches, searched_properties: isWhole }) => (
        <>
          {!isWhole && <p class='hint' role='status'>Emails and names were not searched: ClickHouse, which has them in a form that can be, is unavailable or took too long.</p>}
          {matches.length === 0
            ? <Empty>No person has this distinct id, person id, email, name or username. A distinct id that only sent plain events has no person: <a {...linkTo(`/projects/${projectId.value}/find?distinct_id=${encodeURIComponent(search)}`)}>find its events</a>.</Empty>
            : <Table persons={matches} by={new Map(matches.map(({ uuid, by }) => [uuid, by]))} />}
          {matches.length >= PAGE && <p class='hint'>These are the first {PAGE}: a longer search finds fewer.</p>}
        </>
      )}
    </Show>
  )
}

/** @param props.by  Why each was found. */
function Table ({ persons, by }: { persons: readonly ListedPerson[], by?: ReadonlyMap<string, string> }) {
  return (
    <div class='scroll' role='region' aria-label='Persons' tabIndex={0}>
      <table>
        <thead>
          <tr>
            {by !== undefined && <th scope='col'>Found by</th>}
            <th scope='col'>Person</th><th scope='col'>Distinct ids</th><th scope='col'>Identified</th><th scope='col'>Known since (UTC)</th>
          </tr>
        </thead>
        <tbody>
          {persons.map(({ uuid, name, distinct_ids: ids, is_identified: isIdentified, created_at: at }) => (
            <tr key={uuid}>
              {by !== undefined && <td class='hint'>{by.get(uuid)}</td>}
              <td class='wide'><a {...linkTo(`/projects/${projectId.value}/persons/${uuid}`)}>{showText(name === '' ? ids[0] ?? uuid : name, 80)}</a></td>
              <td class='wide'>{ids.slice(0, 3).map((id) => showText(id, 60)).join(', ')}{ids.length > 3 && ' …'}</td>
              <td>{isIdentified ? 'yes' : 'no'}</td>
              <td class='numbers'>{formatTime(at)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
