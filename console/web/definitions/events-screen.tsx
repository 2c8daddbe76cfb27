import { formatCounted, showText } from '../format.ts'
import { OneOf, Rows } from '../frame/lists.tsx'
import { path, projectId } from '../router.ts'
import { may } from '../session.ts'
import { type EventDefinition, type EventProfile, nameType } from './definition.ts'
import { ByDay, DefinitionList } from './definition-list.tsx'
import { useAnswer } from '../load.ts'
import { Show } from '../states.tsx'
import { Notes } from './notes.tsx'

const ORDERINGS = {
  '-volume_30_day': 'most events first', name: 'by name', '-last_seen_at': 'most recently seen first', last_seen_at: 'least recently seen first'
}

export function EventsScreen () {
  const [, , , id] = path.value
  if (id !== undefined) return <EventDetail key={id} id={id} />
  const mayWrite = may('event_definition:write')
  return (
    <DefinitionList<EventDefinition>
      title='Events'
      resource='event_definitions'
      orderings={ORDERINGS}
      mayWrite={mayWrite}
      hasVolumes
      hint='Event names with a definition. Counts are exact and delayed by seconds.'
      columns={(volumesOf) => [['#Events in 30 days', ({ volume_30_day: volume }) => volume], ['By day', ({ id }) => <ByDay volumes={volumesOf(id)} />]]}
    />
  )
}

function EventDetail ({ id }: { id: string }) {
  const base = `/api/projects/${projectId.value}/event_definitions/`
  const event = useAnswer<EventDefinition>(`${base}${encodeURIComponent(id)}/`)
  const volumes = useAnswer<{ results: { volumes: number[] }[] }>(`${base}volumes/`, { ids: id })
  const profile = useAnswer<EventProfile>(`${base}${encodeURIComponent(id)}/profile/`)
  return (
    <OneOf home='events' title='Events' of={event} what='The event'>
      {(value) => (
        <>
          <Notes
            resource='event_definitions' definition={value} mayWrite={may('event_definition:write')} onChanged={event.reload}
            facts={{ 'In 30 days': <>{formatCounted(value.volume_30_day, 'event')} <ByDay volumes={volumes.value?.results[0]?.volumes} /></> }}
          />
          <h2>Properties</h2>
          <Show of={profile} what='Its properties'>
            {({ properties }) => properties.length === 0
              ? <p class='hint'>This event has no properties.</p>
              : (
                <Rows
                  label='Properties' of={properties} columns={[
                    ['Name', ({ name }) => showText(name), 'wide'], ['Types', ({ types }) => types.map(nameType).join(', ')], ['#Events', ({ events }) => events]
                  ]}
                />
                )}
          </Show>
        </>
      )}
    </OneOf>
  )
}
