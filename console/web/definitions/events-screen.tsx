import { formatAgo, formatCount, formatTime } from '../format.ts'
import { path } from '../router.ts'
import { may } from '../session.ts'
import type { EventDefinition } from './definition.ts'
import { EventDetail } from './event-detail.tsx'
import { ByDay, DefinitionList, NameCell } from './definition-list.tsx'
import { Tags } from './tag-editor.tsx'

const ORDERINGS = {
  '-volume_30_day': 'most events first', name: 'by name', '-last_seen_at': 'last seen first', last_seen_at: 'longest not seen first'
}

/** The events that arrive: how many, when last, and how often analysts ask for them; or one of them (`/<id>`). */
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
      hint='Every name that was ever sent. Counts are exact, and seconds old.'
      head={
        <>
          <th scope='col'>Name</th><th scope='col' class='number'>Events in 30 days</th><th scope='col'>By day</th><th scope='col'>Last seen</th>
          <th scope='col'>First seen</th><th scope='col' class='number'>Queries in 30 days</th><th scope='col'>Tags</th>
        </>
      }
      row={(event, onChanged, volumes) => (
        <>
          <NameCell definition={event} screen='events' />
          <td class='number'>{formatCount(event.volume_30_day)}</td>
          <td><ByDay volumes={volumes?.get(event.id)} /></td>
          <td title={`${formatTime(event.last_seen_at)} UTC`}>{formatAgo(event.last_seen_at, Date.now())}</td>
          <td title={`${formatTime(event.created_at)} UTC`}>{formatAgo(event.created_at, Date.now())}</td>
          <td class='number'>{formatCount(event.query_usage_30_day)}</td>
          <td><Tags resource='event_definitions' definition={event} mayWrite={mayWrite} onChanged={onChanged} /></td>
        </>
      )}
    />
  )
}
