import { useState } from 'preact/hooks'
import { type Page, request } from '../api-client.ts'
import { Confirm } from '../confirm.tsx'
import { showText } from '../format.ts'
import { BackTo } from '../frame/lists.tsx'
import { useAnswer } from '../load.ts'
import { navigate, projectId } from '../router.ts'
import { Empty, Facts, Show, Time } from '../states.tsx'
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
      <BackTo home='persons' title='Persons' />
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
      <Facts
        of={{
          Deletion: id, Events: withEvents ? 'deleted' : 'kept', Requested: <Time at={requested} isZoned />,
          'Nothing left': done === null ? 'not yet' : <Time at={done} isZoned />, Swept: swept === null ? 'not yet' : <Time at={swept} isZoned />
        }}
      />
      <p class='hint'>Not searched: the spool of ingest, dead letters, backups, tables of your own.</p>
    </>
  )
}
