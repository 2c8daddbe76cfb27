import { useState } from 'preact/hooks'
import { type Page, request } from '../api-client.ts'
import { NewDefinition } from '../drafts/definition-screen.tsx'
import { useLoaded } from '../load.ts'
import { projectId, query } from '../router.ts'
import { SCHEMA_SCREEN } from './schema-detail.tsx'

const EXAMPLE = { type: 'object', required: [], properties: {} }

/** The first version of a schema: inferred from stored events, or written by hand. */
export function NewSchema () {
  const [event, setEvent] = useState(query.value.get('event') ?? '')
  return (
    <NewDefinition
      screen={SCHEMA_SCREEN} action='Store the first version' example={EXAMPLE} fields={{ event }} name={event} isTouched={false}
      hint='Storing it enforces nothing: check it by stored events first, then activate it.'
      inputs={(
        <>
          <label>
            Name of the event{' '}
            <input required maxLength={200} list='event-names' value={event} onInput={(input) => setEvent(input.currentTarget.value)} />
          </label>
          <EventNames search={event} />
        </>
      )}
    />
  )
}

/** Names of stored events to choose from. */
function EventNames ({ search }: { search: string }) {
  const names = useLoaded(`names ${projectId.value} ${search}`, async (signal) =>
    await request<Page<{ name: string }>>(`/api/projects/${projectId.value}/event_definitions/`, { query: { search, limit: 20 }, signal }))
  return <datalist id='event-names'>{names.value?.results.map(({ name }) => <option key={name} value={name} />)}</datalist>
}
