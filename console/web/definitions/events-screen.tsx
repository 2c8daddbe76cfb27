import { formatCount, formatCounted, showText } from '../format.ts'
import { linkTo, path, projectId } from '../router.ts'
import { may } from '../session.ts'
import { type EventDefinition, type EventProfile, nameType } from './definition.ts'
import { ByDay, DefinitionList, NameCell } from './definition-list.tsx'
import { useAnswer } from '../load.ts'
import { Show, Table } from '../states.tsx'
import { Notes } from './definition-parts.tsx'

const ORDERINGS = {
  '-volume_30_day': 'most events first', name: 'by name', '-last_seen_at': 'most recently seen first', last_seen_at: 'least recently seen first'
}

/** The events that arrive: how many, and when last; or one of them (`/<id>`). */
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
      head={['Name', '#Events in 30 days', 'By day']}
      row={(event, volumes) => (
        <>
          <NameCell definition={event} screen='events' />
          <td class='number'>{formatCount(event.volume_30_day)}</td>
          <td><ByDay volumes={volumes} /></td>
        </>
      )}
    />
  )
}

/** One event: how often, and with which properties. */
function EventDetail ({ id }: { id: string }) {
  const base = `/api/projects/${projectId.value}/event_definitions/`
  const event = useAnswer<EventDefinition>(`${base}${encodeURIComponent(id)}/`)
  const volumes = useAnswer<{ results: { volumes: number[] }[] }>(`${base}volumes/`, { ids: id })
  const profile = useAnswer<EventProfile>(`${base}${encodeURIComponent(id)}/profile/`)
  return (
    <section>
      <p><a {...linkTo(`/projects/${projectId.value}/events`)}>Events</a></p>
      <Show of={event} what='The event'>
        {(value) => (
          <>
            <Notes resource='event_definitions' definition={value} mayWrite={may('event_definition:write')} onChanged={event.reload}>
              <div><dt>In 30 days</dt><dd>{formatCounted(value.volume_30_day, 'event')} <ByDay volumes={volumes.value?.results[0]?.volumes} /></dd></div>
            </Notes>
            <h2>Properties</h2>
            <Show of={profile} what='Its properties'>
              {({ properties }) => properties.length === 0
                ? <p class='hint'>This event has no properties.</p>
                : (
                  <Table label='Properties' head={['Name', 'Types', '#Events']}>
                    {properties.map(({ name, types, events }) => (
                      <tr key={name}><td class='wide'>{showText(name)}</td><td>{types.map(nameType).join(', ')}</td><td class='number'>{formatCount(events)}</td></tr>
                    ))}
                  </Table>
                  )}
            </Show>
          </>
        )}
      </Show>
    </section>
  )
}
