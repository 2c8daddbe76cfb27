import { useState } from 'preact/hooks'
import type { Answer, Schema } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { formatZoned, showText, zoneLabel } from '../format.ts'
import { OlderNewer, useCursorPages } from '../paging.tsx'
import { ReceiptOf, StoredOf } from '../receipts/receipt-view.tsx'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Again, Dialog, Empty, Show, Table, Time } from '../states.tsx'

type ListedEvent = Schema<'ListedEvent'>

interface StoredEventsProps {
  /** Parameters of the API; empty ones are left out. */
  filter: Record<string, string>
  /** Before now; 0: any time. */
  hours?: number
}

/** Stored events, newest first, by pages; one opens to its content and its receipt. */
export function StoredEvents ({ filter, hours = 0 }: StoredEventsProps) {
  const [opened, setOpened] = useState<ListedEvent>()
  const isFiltered = hours > 0 || Object.values(filter).some((each) => each !== '')
  const events = useCursorPages(`stored ${projectId.value} ${JSON.stringify(filter)} ${hours}`, async (after, signal) =>
    await request<Answer<'/api/projects/{project_id}/events'>>(`/api/projects/${projectId.value}/events`, {
      query: { ...filter, after, from: hours === 0 ? undefined : new Date(Date.now() - hours * 3_600_000).toISOString() }, signal
    }))
  return (
    <>
      <Show of={events} what='Stored events'>
        {({ results, searched_from: searchedFrom, complete_through: through }) => (
          <>
            <OlderNewer of={events}>
              <Again of={events}>Look again</Again>
              <span class='hint' role='status'>
                {searchedFrom !== null && `Back to ${formatZoned(searchedFrom)} so far: the search took long, and Older goes on. `}
                {through !== null && <>Complete through <Time at={through} isZoned />.</>}
              </span>
            </OlderNewer>
            {results.length === 0
              ? <Empty><p>{searchedFrom !== null ? 'None of those that were searched matches.' : isFiltered ? 'No stored event matches.' : 'No event is stored yet: Connect has the code that sends the first.'}</p></Empty>
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
    <Table label='Stored events' head={[`Time (${zoneLabel()})`, 'Event', 'Distinct id', hasPlace && 'Where', hasLib && 'SDK']}>
      {events.map((event) => (
        <tr key={event.uuid}>
          <td class='numbers'><Time at={event.timestamp} /></td>
          <td class='value'>
            <button type='button' class='link' onClick={() => onOpen(event)}>{showText(event.event, 80)}</button>
            {event.is_bot && <> <span class='tag'>bot</span></>}
          </td>
          <td class='value'><a {...linkTo(`/projects/${projectId.value}/stored?distinct_id=${encodeURIComponent(event.distinct_id)}`)}>{showText(event.distinct_id, 60)}</a></td>
          {hasPlace && <td class='wide'>{showText(event.place, 100)}</td>}
          {hasLib && <td class='numbers'>{showText(`${event.lib} ${event.lib_version}`.trim(), 40)}</td>}
        </tr>
      ))}
    </Table>
  )
}

function StoredDialog ({ event, onClose }: { event: ListedEvent, onClose: () => void }) {
  const home = `/projects/${projectId.value}`
  return (
    <Dialog title={showText(event.event)} onClose={onClose} isWide>
      <dl class='facts'>
        <div><dt>Happened</dt><dd><Time at={event.timestamp} isZoned digits={3} /></dd></div>
        <div><dt>Received</dt><dd><Time at={event.received_at} isZoned digits={3} /></dd></div>
        <div><dt>Uuid</dt><dd><a {...linkTo(`${home}/find?uuid=${event.uuid}`)}><code>{event.uuid}</code></a></dd></div>
        <div><dt>Distinct id</dt><dd>{showText(event.distinct_id)}</dd></div>
        <div>
          <dt>Person</dt>
          <dd>
            {may('person:read') ? <a {...linkTo(`${home}/persons/${event.person_id}`)}><code>{event.person_id}</code></a> : <code>{event.person_id}</code>}{' '}
            <a {...linkTo(`${home}/stored?person=${event.person_id}`)}>its events</a>
          </dd>
        </div>
        {event.place !== '' && <div><dt>Where</dt><dd>{showText(event.place, 400)}</dd></div>}
      </dl>
      <h3>As stored</h3>
      <StoredOf uuid={event.uuid} />
      <h3>Receipt</h3>
      <ReceiptOf uuid={event.uuid} />
      <p class='actions'><button type='button' onClick={onClose}>Close</button></p>
    </Dialog>
  )
}
