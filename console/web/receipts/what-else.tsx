import type { Schema } from '../../../schema/api-types.ts'
import { request } from '../api-client.ts'
import { fetchGroups } from '../dead-letters/dead-letters.ts'
import { formatAgo, formatCounted, formatUtc, showText, zoneLabel } from '../format.ts'
import { type Loaded, useAnswer, useLoaded } from '../load.ts'
import { linkTo, projectId } from '../router.ts'
import { may, session } from '../session.ts'
import { Show, Table, Time } from '../states.tsx'
import { UUID } from './explain-receipt.ts'
import { describeRefused, explainWarning, isOfRequests, type RefusedRequests } from './warning-words.ts'

type Lookup = Schema<'Lookup'>

/**
 * Everything beside receipts that may say where an event is: stored ones of this name, dead letters, what was not stored
 * as it was sent, other projects, and requests that were refused as a whole.
 *
 * @param isFound  Something was found: refused requests are shown only if there are any.
 */
export function WhatElse ({ text, isFound }: { text: string, isFound: boolean }) {
  const found = useAnswer<Lookup>(`/api/projects/${projectId.value}/lookup`, { text })
  // The receipt of a uuid knows its dead letter.
  const letters = useLoaded(`dead letters of ${projectId.value} ${text}`, async (signal) =>
    !UUID.test(text) && may('dead_letter:read') ? (await fetchGroups({ event: text }, signal)).count : 0)
  return (
    <Show of={found} what='What else is known'>
      {({ events, warnings, elsewhere }) => (
        <>
          {events.length > 0 && <Named text={text} events={events} />}
          <DeadLetters event={text} of={letters} />
          {warnings.length > 0 && <Warnings warnings={warnings} />}
          {elsewhere.length > 0 && <Elsewhere text={text} elsewhere={elsewhere} />}
          {letters.value !== undefined && <Refused isFound={isFound || letters.value + events.length + warnings.length + elsewhere.length > 0} />}
        </>
      )}
    </Show>
  )
}

function Named ({ text, events }: { text: string, events: Lookup['events'] }) {
  const home = `/projects/${projectId.value}`
  return (
    <>
      <h2>Newest stored events named <code>{showText(text)}</code></h2>
      <Table label='Events of this name' head={['Received', 'Distinct id', `Happened (${zoneLabel()})`, 'Uuid']}>
        {events.map(({ uuid, distinct_id: id, received_at: received, timestamp, is_bot: isBot }) => (
          <tr key={uuid}>
            <td title={formatUtc(received)}>{formatAgo(received, Date.now())}</td>
            <td class='value'><a {...linkTo(`${home}/find?distinct_id=${encodeURIComponent(id)}`)}>{showText(id, 80)}</a>{isBot && <> <span class='tag'>bot</span></>}</td>
            <td class='numbers'><Time at={timestamp} /></td>
            <td><a {...linkTo(`${home}/find?uuid=${uuid}`)}><code>{uuid}</code></a></td>
          </tr>
        ))}
      </Table>
    </>
  )
}

/** @param props.of  How many of this name there are. */
function DeadLetters ({ event, of }: { event: string, of: Loaded<number> }) {
  if (of.value === 0) return null
  return (
    <Show of={of} what='Dead letters'>
      {(count) => (
        <>
          <h2>Dead letters</h2>
          <p>
            {formatCounted(count, 'event')} of this name could not be stored, and {count === 1 ? 'is' : 'are'} kept:{' '}
            <a {...linkTo(`/projects/${projectId.value}/dead-letters?event=${encodeURIComponent(event)}`)}>see why, and replay {count === 1 ? 'it' : 'them'}</a>.
          </p>
        </>
      )}
    </Show>
  )
}

function Warnings ({ warnings }: { warnings: Lookup['warnings'] }) {
  return (
    <>
      <h2>Not stored as sent, in the last 7 days</h2>
      <Table label='Not stored as sent' head={['Received', 'Event', 'What happened', 'Distinct id', 'Value at fault']}>
        {warnings.map((warning, index) => (
          <tr key={index}>
            <td title={formatUtc(warning.received_at)}>{formatAgo(warning.received_at, Date.now())}</td>
            <td class='value'>{UUID.test(warning.uuid)
              ? <a {...linkTo(`/projects/${projectId.value}/find?uuid=${warning.uuid.toLowerCase()}`)}>{showText(warning.event, 80) || '(no name)'}</a>
              : showText(warning.event, 80)}
            </td>
            <td class='wide'>{explainWarning(warning.reason)}</td>
            <td class='value'>{showText(warning.distinct_id, 80)}</td>
            <td class='value'><code>{showText(warning.value)}</code></td>
          </tr>
        ))}
      </Table>
      <p class='hint'>Samples of each minute are kept. <a {...linkTo(`/projects/${projectId.value}/warnings?hours=168`)}>Warnings</a> has the exact counts.</p>
    </>
  )
}

function Elsewhere ({ text, elsewhere }: { text: string, elsewhere: Lookup['elsewhere'] }) {
  const nameOf = (project: number): string => session.value?.projects.find(({ id }) => id === project)?.name ?? ''
  return (
    <>
      <h2>In other projects</h2>
      <ul>
        {elsewhere.map(({ project_id: id, what }) => (
          <li key={`${id} ${what}`}>
            Events of this {what} came to <a {...linkTo(`/projects/${id}/find?${what === 'uuid' ? 'uuid' : 'text'}=${encodeURIComponent(text)}`)}>{showText(nameOf(id), 60)} ({id})</a>:
            was it sent with the key of that project?
          </li>
        ))}
      </ul>
    </>
  )
}

/**
 * What was refused before anybody looked at the events.
 *
 * @param props.isFound  Something is known of what was asked for, but perhaps not of the one that is missed.
 */
function Refused ({ isFound }: { isFound: boolean }) {
  const home = `/projects/${projectId.value}`
  const refused = useLoaded(`refused ${projectId.value}`, fetchRefused)
  if (isFound && (refused.value === undefined || refused.value.length === 0)) return null
  return (
    <>
      <h2>{isFound ? 'Still missing an event? Requests were refused' : 'Requests refused before their events were read'}</h2>
      {isFound && <p class='hint'>In the last 24 hours. Their events were not read, so the missing one may have been among them.</p>}
      <Show of={refused} what='Refused requests'>
        {(found) => (
          <>
            {found.length === 0
              ? <p>No request was refused in the last 24 hours{session.value?.all_projects === true ? '' : ', as far as this key may see'}, and no stored event or warning of the last 7 days matches.</p>
              : <ul>{found.map((each) => <li key={each.reason}>{describeRefused(each, Date.now())}</li>)}</ul>}
            <p>
              {may('project:read') && (
                <>
                  <a {...linkTo(`${home}/connect`)}>Connect</a> has the address and the key as they must be, and a light that comes on;{' '}
                  <a {...linkTo(`${home}/usage`)}>Usage</a> the quota.{' '}
                </>
              )}
              <a {...linkTo(`${home}/warnings`)}>Warnings</a> has cases of what was refused. <a {...linkTo(`${home}/live`)}>Live events</a> shows what arrives while it is sent again.
            </p>
          </>
        )}
      </Show>
    </>
  )
}

/** Requests of the last hours that were refused as a whole; those of no project only for keys of all projects. */
export async function fetchRefused (signal: AbortSignal, hours = 24): Promise<RefusedRequests[]> {
  const { results } = await request<{ results: RefusedRequests[] }>(`/api/projects/${projectId.value}/ingestion_warnings/summary/`, {
    query: { hours, unassigned: session.value?.all_projects === true || undefined }, signal
  })
  return results.filter(({ reason }) => isOfRequests(reason))
}
