import { useState } from 'preact/hooks'
import type { Answer, Schema } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { formatZoned, showText, zoneLabel } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { Pager, usePages } from '../paging.tsx'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Again, Empty, Show, Time } from '../states.tsx'
import { EventDialog } from './event-dialog.tsx'

type ListedEvent = Schema<'ListedEvent'>

interface StoredEventsProps {
  /** Parameters of the API; empty ones are left out. */
  filter: Record<string, string>
  /** Before now; 0: any time. */
  hours?: number
}

export function StoredEvents ({ filter, hours = 0 }: StoredEventsProps) {
  const [opened, setOpened] = useState<ListedEvent>()
  const isFiltered = hours > 0 || Object.values(filter).some((each) => each !== '')
  const events = usePages(`stored ${projectId.value} ${JSON.stringify(filter)} ${hours}`, async (start, signal) =>
    await request<Answer<'/api/projects/{project_id}/events'>>(`/api/projects/${projectId.value}/events`, {
      query: { ...filter, ...start, from: hours === 0 ? undefined : new Date(Date.now() - hours * 3_600_000).toISOString() }, signal
    }))
  return (
    <>
      <Show of={events} what='Stored events'>
        {({ results, searched_from: searchedFrom, complete_through: through }) => (
          <>
            <Pager of={events} words={['Newer', 'Older']}>
              <Again of={events}>Look again</Again>
              <span class='hint' role='status'>
                {searchedFrom !== null && `Back to ${formatZoned(searchedFrom)} so far: the search took long; Older continues. `}
                {through !== null && <>Complete through <Time at={through} isZoned />.</>}
              </span>
            </Pager>
            {results.length === 0
              ? <Empty><p>{searchedFrom !== null ? 'No searched event matches.' : isFiltered ? 'No stored event matches.' : 'No event is stored yet: Connect has the code that sends the first.'}</p></Empty>
              : <EventTable events={results} onOpen={setOpened} />}
          </>
        )}
      </Show>
      {opened !== undefined && <StoredDialog event={opened} onClose={() => setOpened(undefined)} />}
    </>
  )
}

function EventTable ({ events, onOpen }: { events: readonly ListedEvent[], onOpen: (event: ListedEvent) => void }) {
  // Events of a script or an import have neither.
  const hasPlace = events.some(({ place }) => place !== '')
  const hasLib = events.some(({ lib }) => lib !== '')
  return (
    <Rows
      label='Stored events' of={events} keyOf={({ uuid }) => uuid} columns={[
        [`Time (${zoneLabel()})`, ({ timestamp }) => <Time at={timestamp} />, 'numbers'],
        ['Event', (event) => (
          <>
            <button type='button' class='link' onClick={() => onOpen(event)}>{showText(event.event, 80)}</button>
            {event.is_bot && <> <span class='tag'>bot</span></>}
          </>
        ), 'value'],
        ['Distinct id', ({ distinct_id: id }) => <a {...linkTo(`/projects/${projectId.value}/stored?distinct_id=${encodeURIComponent(id)}`)}>{showText(id, 60)}</a>, 'value'],
        hasPlace && ['Where', ({ place }) => showText(place, 100), 'wide'],
        hasLib && ['SDK', ({ lib, lib_version: version }) => showText(`${lib} ${version}`.trim(), 40), 'numbers']
      ]}
    />
  )
}

function StoredDialog ({ event, onClose }: { event: ListedEvent, onClose: () => void }) {
  const { event: name, uuid, distinct_id: distinctId, person_id: person } = event
  const home = `/projects/${projectId.value}`
  const facts = {
    Happened: <Time at={event.timestamp} isZoned digits={3} />, Received: <Time at={event.received_at} isZoned digits={3} />,
    Person: (
      <>
        {may('person:read') ? <a {...linkTo(`${home}/persons/${person}`)}><code>{person}</code></a> : <code>{person}</code>}{' '}
        <a {...linkTo(`${home}/stored?person=${person}`)}>its events</a>
      </>
    ),
    Where: showText(event.place, 400)
  }
  return <EventDialog name={name} uuid={uuid} distinctId={distinctId} facts={facts} onClose={onClose} />
}
