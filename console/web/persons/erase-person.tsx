import { useState } from 'preact/hooks'
import type { Answer } from '../../api-types.ts'
import { fetchFile, request } from '../api-client.ts'
import { Confirm, useAction } from '../confirm.tsx'
import { formatCount, showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { fileName, offerFile } from '../offer-file.ts'
import { projectId } from '../router.ts'
import { may } from '../session.ts'
import { Facts, Show } from '../states.tsx'
import type { Person } from './person.ts'

type Erased = Answer<'/api/projects/{project_id}/erasures', 'post'>

type Way = 'erase' | 'anonymise'

/** What can be done with a person as a whole. */
export function PersonActions ({ person }: { person: Person }) {
  const [way, setWay] = useState<Way>()
  const [done, setDone] = useState<Erased>()
  const { isBusy, run, failure } = useAction(async () => offerFile(
    await fetchFile(`/api/projects/${projectId.value}/persons/export`, { query: { person: person.uuid } }), fileName(person.name, 'zip')))
  return (
    <>
      <p class='actions'>
        {may('event:read') && may('dead_letter:read') && <button type='button' disabled={isBusy} onClick={run}>Export everything (zip)</button>}
        {may('person:write') && (
          <>
            <button type='button' onClick={() => setWay('anonymise')}>Anonymise …</button>
            <button type='button' onClick={() => setWay('erase')}>Erase everything …</button>
          </>
        )}
      </p>
      {failure}
      {done !== undefined && (
        <p class='verdict' role='status'>
          {done.done_at === null ? 'Recorded: it continues in the background.' : 'Done: a count found nothing left.'} Check yourself: {done.not_searched.map(({ what }) => what).join('; ')}.
        </p>
      )}
      {way !== undefined && <ErasePerson person={person} way={way} onDone={setDone} onClose={() => setWay(undefined)} />}
    </>
  )
}

const ABOUT = {
  erase: 'All data of its distinct ids is erased; restores, imports and replays do not bring it back. This cannot be undone.',
  anonymise: 'Its distinct ids are replaced with random ones; events and counts stay. This cannot be undone.'
}

/** Shows what a dry run counts before the word is typed. */
function ErasePerson ({ person, way, onDone, onClose }: { person: Person, way: Way, onDone: (done: Erased) => void, onClose: () => void }) {
  const [removed, setRemoved] = useState('')
  const names = removed.split(',').map((name) => name.trim()).filter((name) => name !== '')
  const body = { distinct_ids: person.distinct_ids, ...way === 'anonymise' && { anonymise: true, remove_properties: names } }
  const ask = async (dryRun: boolean, signal?: AbortSignal): Promise<Erased> => await request<Erased>(`/api/projects/${projectId.value}/erasures/`, {
    method: 'POST', body: { ...body, dry_run: dryRun }, ...signal !== undefined && { signal }
  })
  const counted = useLoaded(`erasure of ${projectId.value} ${person.uuid}`, async (signal) => await ask(true, signal))
  return (
    <Confirm title={`${way === 'erase' ? 'Erase' : 'Anonymise'} ${showText(person.name, 80)}`} word={way} action={way === 'erase' ? 'Erase' : 'Anonymise'} onClose={onClose} onConfirm={async () => await ask(false)} onDone={onDone}>
      <p>{ABOUT[way]}</p>
      <Show of={counted} what='The count'>
        {({ found, distinct_ids: ids }) => (
          <Facts of={Object.fromEntries([['distinct ids', formatCount(ids.length)], ...found.filter(({ where, count }) => count > 0 && where !== 'distinct_ids').map(({ where, count }) => [where.replaceAll('_', ' '), formatCount(count)])])} />
        )}
      </Show>
      {way === 'anonymise' && (
        <label>
          Properties to remove, separated by commas
          <input value={removed} placeholder='email, name, $ip' onInput={(event) => setRemoved(event.currentTarget.value)} />
        </label>
      )}
    </Confirm>
  )
}
