import { formatAgo, formatCount, formatTime, showText, UNKNOWN } from '../format.ts'
import { may } from '../session.ts'
import { Sparkline } from '../states.tsx'
import { DefinitionList } from './definition-list.tsx'
import { Tags } from './tag-editor.tsx'

interface EventDefinition {
  id: string
  name: string
  volume_30_day: number
  query_usage_30_day: number
  created_at: string
  last_seen_at: string | null
  tags: string[]
}

const ORDERINGS = {
  '-volume_30_day': 'most events first', name: 'by name', '-last_seen_at': 'last seen first', last_seen_at: 'longest not seen first'
}

/** The events that arrive: how many, when last, and how often analysts ask for them. */
export function EventsScreen () {
  return (
    <DefinitionList<EventDefinition>
      title='Events'
      resource='event_definitions'
      orderings={ORDERINGS}
      hint='Every name that was ever sent. Counts are exact, and seconds old.'
      head={
        <tr>
          <th scope='col'>Name</th><th scope='col' class='number'>Events in 30 days</th><th scope='col'>By day</th><th scope='col'>Last seen</th>
          <th scope='col'>First seen</th><th scope='col' class='number'>Queries in 30 days</th><th scope='col'>Tags</th>
        </tr>
      }
      hasVolumes
      row={(event, onChanged, volumes) => (
        <tr key={event.id}>
          <td class='wide'>{showText(event.name)}</td>
          <td class='number'>{formatCount(event.volume_30_day)}</td>
          <td><ByDay volumes={volumes?.get(event.id)} /></td>
          <td title={`${formatTime(event.last_seen_at)} UTC`}>{formatAgo(event.last_seen_at, Date.now())}</td>
          <td title={`${formatTime(event.created_at)} UTC`}>{formatAgo(event.created_at, Date.now())}</td>
          <td class='number'>{formatCount(event.query_usage_30_day)}</td>
          <td><Tags resource='event_definitions' definition={event} mayWrite={may('event_definition:write')} onChanged={onChanged} /></td>
        </tr>
      )}
    />
  )
}

function ByDay ({ volumes }: { volumes: readonly number[] | undefined }) {
  if (volumes === undefined) return UNKNOWN
  return <Sparkline values={volumes} label={`${formatCount(volumes.at(-1))} today, at most ${formatCount(Math.max(...volumes))} on a day`} />
}
