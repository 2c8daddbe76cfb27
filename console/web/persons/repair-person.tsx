import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { Ask } from '../confirm.tsx'
import { showText } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { projectId } from '../router.ts'
import { may } from '../session.ts'
import { Time } from '../states.tsx'
import type { Person, PersonHistory } from './person.ts'

interface Repair {
  title: string
  action: string
  path: 'split' | 'undo_merge'
  body: object
  about: string
}

/** Asks before a person is computed again. */
export function RepairPerson ({ person, repair, onDone, onClose }: { person: Person, repair: Repair, onDone: () => void, onClose: () => void }) {
  const { title, action, path, body, about } = repair
  const post = async (): Promise<unknown> => await request(`/api/projects/${projectId.value}/persons/${person.uuid}/${path}/`, { method: 'POST', body })
  return <Ask title={title} action={action} onConfirm={post} onDone={onDone} onClose={onClose}><p>{about}</p></Ask>
}

export function splitOff (id: string): Repair {
  return {
    title: `Split off ${showText(id, 60)}`, action: 'Split off', path: 'split', body: { distinct_ids: [id] },
    about: 'Its past and future events, and the properties they set, belong to a new person.'
  }
}

type Merge = NonNullable<PersonHistory['merges']>[number]

/** Events that asked for merges, each of which can be undone. */
export function Merges ({ person, merges, onDone }: { person: Person, merges: readonly Merge[], onDone: () => void }) {
  const [undone, setUndone] = useState<Merge>()
  const onClose = (): void => setUndone(undefined)
  return (
    <>
      <h2>Merges</h2>
      <Rows
        label='Merges' of={merges} keyOf={({ uuid }) => uuid} columns={[
          ['Received', ({ at }) => <Time at={at} />, 'numbers'],
          ['Event', ({ event }) => event],
          ['Merged', ({ other_distinct_id: other, distinct_id: id }) => `${showText(other, 60)} into ${showText(id, 60)}`, 'wide'],
          may('person:write') && ['Undo', (merge) => merge.undone_at === null
            ? <button type='button' class='quiet' onClick={() => setUndone(merge)}>Undo<span class='hidden'> the merge of {showText(merge.other_distinct_id, 60)}</span></button>
            : <>undone <Time at={merge.undone_at} /></>]
        ]}
      />
      {undone !== undefined && (
        <RepairPerson
          person={person} onDone={onDone} onClose={onClose} repair={{
            title: 'Undo this merge', action: 'Undo', path: 'undo_merge', body: { event: undone.uuid },
            about: `The persons of ${showText(undone.distinct_id, 60)} and ${showText(undone.other_distinct_id, 60)} are recomputed as if the merge had never happened. Another event that merges them keeps them together.`
          }}
        />
      )}
    </>
  )
}
