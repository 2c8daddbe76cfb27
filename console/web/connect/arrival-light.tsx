import { useState } from 'preact/hooks'
import type { Answer } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { formatAgo, showText } from '../format.ts'
import { useFeed } from '../live/follow-feed.ts'
import { useLoaded } from '../load.ts'
import { fetchRefused } from '../receipts/refused-requests.tsx'
import { describeRefused } from '../receipts/warning-words.ts'
import { linkTo, projectId } from '../router.ts'
import { Failed, Time } from '../states.tsx'

type Arrivals = Answer<'/api/projects/{project_id}/events/arrivals'>

/** How often the stores are asked, in milliseconds: while the first event is awaited, and after. */
const WAITING_MS = 2000
const ARRIVED_MS = 15_000
const REFUSED_MS = 5000

interface Seen { event: string, distinctId: string, at: number, drop: string | null }

/**
 * A light that comes on when the project gets its first event: at once by the live feed, and within seconds by the
 * definitions, should the feed not be open.
 */
export function ArrivalLight () {
  const project = projectId.value
  const [seen, setSeen] = useState<Seen>()
  const [isKnown, setKnown] = useState(false)
  const arrivals = useLoaded(`arrivals ${project}`, async (signal) => {
    const answer = await request<Arrivals>(`/api/projects/${project}/events/arrivals`, { signal })
    setKnown(answer.last_event_at !== null)
    return answer
  }, { everyMs: isKnown ? ARRIVED_MS : WAITING_MS })
  const last = arrivals.value?.last_event_at ?? null
  const isWaiting = arrivals.value !== undefined && last === null && (seen === undefined || seen.drop !== null)
  const hasArrived = last !== null || (seen !== undefined && seen.drop === null)
  return (
    <>
      {arrivals.error !== undefined && <Failed error={arrivals.error} onRetry={arrivals.reload} />}
      <p class={`light ${hasArrived ? 'on' : ''}`} role='status'>
        {hasArrived
          ? <Arrived first={arrivals.value?.first_received_at ?? null} last={last} seen={seen} />
          : arrivals.value !== undefined && 'Waiting for the first event …'}
        {!hasArrived && seen?.drop !== null && seen !== undefined &&
          ` One came and was dropped: ${seen.drop}. See Warnings.`}
      </p>
      {isWaiting && <Watch onSeen={setSeen} />}
      {isWaiting && <Refused />}
    </>
  )
}

function Arrived ({ first, last, seen }: { first: string | null, last: string | null, seen: Seen | undefined }) {
  const at = first ?? (seen === undefined ? null : new Date(seen.at).toISOString())
  return (
    <>
      {at === null ? 'Events have arrived' : <>First event received at <Time at={at} isZoned /></>}
      {seen !== undefined && seen.drop === null && <>: <strong>{showText(seen.event, 60)}</strong> of {showText(seen.distinctId, 60)}</>}
      {seen === undefined && last !== null && `, the last ${formatAgo(last, Date.now())}`}
      . <a {...linkTo(`/projects/${projectId.value}/live`)}>See it live</a>
    </>
  )
}

/** Why the first event may not come: requests that were refused in the last hour. */
function Refused () {
  const refused = useLoaded(`refused lately ${projectId.value}`, async (signal) => await fetchRefused(signal, 1), { everyMs: REFUSED_MS })
  if (refused.value === undefined || refused.value.length === 0) return null
  return <ul class='problems'>{refused.value.map((each) => <li key={each.reason}>{describeRefused(each, Date.now())}</li>)}</ul>
}

/** Follows the live feed until an event arrives. Dropped events are shown, but do not end it. */
function Watch ({ onSeen }: { onSeen: (seen: Seen) => void }) {
  useFeed(`/api/projects/${projectId.value}/events/live`, {
    batch: ({ events }) => {
      const event = events.find(({ drop }) => drop === null) ?? events[0]
      if (event !== undefined) onSeen(event)
    }
  })
  return null
}
