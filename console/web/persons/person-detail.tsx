import { useState } from 'preact/hooks'
import { useAction } from '../confirm.tsx'
import { useCohortNames } from '../flags/cohorts.ts'
import type { FlagExplanation } from '../../../engines/flags/explain-flag.ts'
import { Explanations, testFlags } from '../flags/test-as.tsx'
import { formatCount, showText } from '../format.ts'
import { BackTo, Rows } from '../frame/lists.tsx'
import { useAnswer } from '../load.ts'
import { StoredEvents } from '../live/stored-events.tsx'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Facts, Select, Show, Time } from '../states.tsx'
import { PersonActions } from './erase-person.tsx'
import { describeId, type Person, type PersonHistory } from './person.ts'
import { Properties } from './properties.tsx'
import { Merges, RepairPerson, splitOff } from './repair-person.tsx'
import { Title } from '../title.tsx'

export function PersonDetail ({ id }: { id: string }) {
  const person = useAnswer<Person>(`/api/projects/${projectId.value}/persons/${encodeURIComponent(id)}/`)
  return (
    <section>
      <BackTo home='persons' title='Persons' />
      {person.error?.status === 404
        ? <Gone id={id} />
        : <Show of={person} what='The person'>{(value) => <Detail person={value} asked={id} reload={person.reload} />}</Show>}
    </section>
  )
}

function Gone ({ id }: { id: string }) {
  return (
    <>
      <h1>No such person</h1>
      {may('event:read') && <p>Of people who were never identified and have no properties, only <a {...linkTo(`/projects/${projectId.value}/stored?person=${encodeURIComponent(id)}`)}>the events</a> are stored.</p>}
      <p>No person has the id <code>{showText(id, 60)}</code>. Perhaps the person was deleted.</p>
    </>
  )
}

function Detail ({ person, asked, reload }: { person: Person, asked: string, reload: () => void }) {
  const { uuid, name, is_identified: isIdentified } = person
  const history = useAnswer<PersonHistory>(`/api/projects/${projectId.value}/persons/${uuid}/history`)
  const onRepaired = (): void => {
    reload()
    history.reload()
  }
  const merges = history.value?.merges ?? []
  return (
    <>
      <Title name={name} max={120} />
      {asked.toLowerCase() !== uuid && <p class='hint'>Found by <code>{asked}</code>, an id from before a merge.</p>}
      <Facts
        of={{
          'Person id': <code>{uuid}</code>,
          Identified: isIdentified ? 'yes' : 'no: identify was never called for it',
          'First seen': history.value !== undefined && <Time at={history.value.first_seen} isZoned />,
          'Last changed': history.value !== undefined && <Time at={history.value.changed_at} isZoned />
        }}
      />
      <Properties properties={person.properties} />
      <Ids person={person} history={history.value} onRepaired={onRepaired} />
      {merges.length > 0 && <Merges person={person} merges={merges} onDone={onRepaired} />}
      {may('event:read') && <><h2>Last events</h2><StoredEvents filter={{ person: uuid }} /></>}
      {may('feature_flag:read') && person.distinct_ids[0] !== undefined && <Flags ids={person.distinct_ids} />}
      <PersonActions person={person} />
    </>
  )
}

function Ids ({ person, history, onRepaired }: { person: Person, history: PersonHistory | undefined, onRepaired: () => void }) {
  const [leaving, setLeaving] = useState<string>()
  const ids = history?.distinct_ids ?? person.distinct_ids.map((id) => ({ distinct_id: id, since: null, is_first: false }))
  const count = history?.distinct_id_count ?? ids.length
  return (
    <>
      <h2>Distinct ids <span class='hint'>{formatCount(count)}</span></h2>
      <Rows
        label='Distinct ids' of={ids} columns={[
          ['Distinct id', ({ distinct_id: id }) => showText(id), 'wide'],
          ['Assigned to this person', (id) => history !== undefined && describeId(id, person.created_at), 'hint numbers'],
          count > 1 && may('person:write') && ['Split', ({ distinct_id: id }) => <button type='button' class='quiet' onClick={() => setLeaving(id)}>Split off<span class='hidden'> {showText(id, 60)}</span></button>]
        ]}
      />
      {count > ids.length && <p class='hint'>The {formatCount(ids.length)} newest.</p>}
      {leaving !== undefined && <RepairPerson person={person} repair={splitOff(leaving)} onDone={onRepaired} onClose={() => setLeaving(undefined)} />}
    </>
  )
}

/** What `/flags` would answer now, with the reasons; computed by the same code, for one of its distinct ids. */
function Flags ({ ids }: { ids: readonly string[] }) {
  const [id, setId] = useState(ids[0] ?? '')
  const [results, setResults] = useState<{ id: string, flags: FlagExplanation[] }>()
  const { isBusy, run, failure } = useAction(async () => setResults({ id, flags: await testFlags({ distinct_id: id }) }))
  useCohortNames()
  return (
    <>
      <h2>Flags as seen now</h2>
      <div class='toolbar'>
        <Select label='Distinct id' value={id} options={ids.map((each) => [each, showText(each, 60)] as const)} onChange={setId} />
        <button type='button' disabled={isBusy} onClick={run}>{results === undefined ? 'Compute' : 'Compute again'}</button>
      </div>
      {failure}
      <Explanations of={results?.id === id ? results.flags : undefined} />
    </>
  )
}
