import { useState } from 'preact/hooks'
import { type Page, request } from '../api-client.ts'
import { Confirm } from '../confirm.tsx'
import { showText } from '../format.ts'
import { useAnswer } from '../load.ts'
import { linkTo, navigate, projectId } from '../router.ts'
import { Empty, Show, Time } from '../states.tsx'
import { Title } from '../title.tsx'
import { describeDeletion, type Person, type PersonDeletion } from './person.ts'

/** Deletes a person after a word was typed, and leads to the receipt of it. */
export function DeletePerson ({ person, onClose }: { person: Person, onClose: () => void }) {
  const [withEvents, setWithEvents] = useState(false)
  const persons = `/projects/${projectId.value}/persons`
  const remove = async () => await request(`/api${persons}/${person.uuid}/`, { method: 'DELETE', query: { delete_events: withEvents } })
  return (
    <Confirm title={`Delete ${showText(person.name, 80)}`} word='delete' action='Delete' onClose={onClose} onConfirm={remove} onDone={() => navigate(`${persons}/deletions/${person.uuid}`)}>
      <p>Its properties, distinct ids and cohort memberships are permanently deleted. Later events of its distinct ids create a new person.</p>
      <p><label class='check'><input type='checkbox' checked={withEvents} onChange={(event) => setWithEvents(event.currentTarget.checked)} /> Delete all its events received so far, too</label></p>
    </Confirm>
  )
}

/** What became of the deletions of a person: the record stays when the person is gone. */
export function Deletions ({ person }: { person: string }) {
  const found = useAnswer<Page<PersonDeletion>>(`/api/projects/${projectId.value}/persons/deletions`, { person }, { everyMs: 3000 })
  return (
    <section>
      <p><a {...linkTo(`/projects/${projectId.value}/persons`)}>Persons</a></p>
      <Title name='Deletion of a person' />
      <p><code>{showText(person, 60)}</code></p>
      <Show of={found} what='The deletion'>
        {({ results }) => results.length === 0
          ? <Empty>No deletion of this person is recorded.</Empty>
          : results.map((deletion) => <Receipt key={deletion.id} deletion={deletion} />)}
      </Show>
    </section>
  )
}

function Receipt ({ deletion }: { deletion: PersonDeletion }) {
  const { id, with_events: withEvents, requested_at: requested, done_at: done, swept_at: swept } = deletion
  return (
    <>
      <p class={swept === null ? 'verdict waiting' : 'verdict'} role='status'>{describeDeletion(deletion)}</p>
      <dl class='facts'>
        <div><dt>Deletion</dt><dd>{id}</dd></div>
        <div><dt>Events</dt><dd>{withEvents ? 'deleted' : 'kept'}</dd></div>
        <div><dt>Requested</dt><dd class='numbers'><Time at={requested} isZoned /></dd></div>
        <div><dt>Nothing left</dt><dd class='numbers'>{done === null ? 'not yet' : <Time at={done} isZoned />}</dd></div>
        <div><dt>Swept</dt><dd class='numbers'>{swept === null ? 'not yet' : <Time at={swept} isZoned />}</dd></div>
      </dl>
      <p class='hint'>Not searched: the spool of ingest, dead letters, backups, tables of your own.</p>
    </>
  )
}
