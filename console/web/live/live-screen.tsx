import { useEffect, useMemo, useState } from 'preact/hooks'
import { toQuery } from '../api-client.ts'
import { Copyable } from '../confirm.tsx'
import { formatCount, showText } from '../format.ts'
import { projectId, query, setQuery } from '../router.ts'
import { Empty, Failed, Select, Time } from '../states.tsx'
import { TypedFilter } from '../paging.tsx'
import { StoredEvents } from './stored-events.tsx'
import { EventDialog } from './event-dialog.tsx'
import { type Feed, useFeed } from './follow-feed.ts'
import { describeCounts, describeFate, FATES, type LiveEvent, LiveLog, toCurl } from './live-log.ts'
import { LiveTable } from './live-table.tsx'

export function LiveScreen () {
  const parameter = (name: string): string => query.value.get(name) ?? ''
  const [event, distinctId, fate] = [parameter('event'), parameter('distinct_id'), parameter('fate')]
  const isShown = (candidate: LiveEvent): boolean => fate === '' || candidate.fate === fate
  const path = `/api/projects/${projectId.value}/events/live${toQuery({ event, distinct_id: distinctId })}`
  const log = useMemo(() => new LiveLog(), [path])
  const [counts, setCounts] = useState({ connected: true, matched: 0, shown: 0 })
  const [held, setHeld] = useState<{ events: readonly LiveEvent[], added: number }>()
  const [opened, setOpened] = useState<LiveEvent>()
  const hold = (): void => setHeld((before) => before ?? { events: [...log.events], added: log.added })
  useEffect(() => { setHeld(undefined) }, [log])

  const feed = useFeed(path, {
    batch: (batch) => {
      log.add(batch.events, isShown)
      setCounts({ connected: batch.connected, matched: batch.matched, shown: batch.shown })
    }
  })
  const events = (held?.events ?? log.events).filter(isShown).reverse()

  return (
    <section>
      <h1>Live events</h1>
      <p class='hint'>Events stored since you opened this page, within two seconds, and samples of dropped, quarantined and refused ones: one per second and reason.</p>
      <Filters />
      <div class='toolbar'>
        {held === undefined
          ? <button type='button' onClick={hold}>Pause</button>
          : <button type='button' class='primary' onClick={() => setHeld(undefined)}>Continue: {formatCount(log.added - held.added)} held back</button>}
        <span>{describeCounts(counts)}</span>
        <FeedWord feed={feed} connected={counts.connected} />
      </div>
      {feed.error !== undefined && <Failed error={feed.error} onRetry={() => { location.reload() }} />}
      {events.length === 0
        ? <Empty>{counts.matched === 0 ? 'Nothing has arrived in this list yet. Send an event: it appears within two seconds.' : 'No arrived event matches.'}</Empty>
        : <LiveTable events={events} onOpen={setOpened} onHold={hold} />}
      {/* Stored events have no other fate. */}
      {fate === '' && (
        <>
          <h2>Stored before</h2>
          <StoredEvents filter={{ event, distinct_id: distinctId }} />
        </>
      )}
      {opened !== undefined && <LiveDialog event={opened} onClose={() => setOpened(undefined)} />}
    </section>
  )
}

function LiveDialog ({ event, onClose }: { event: LiveEvent, onClose: () => void }) {
  const { event: name, uuid, distinctId, sent } = event
  const facts = {
    Received: <Time at={new Date(event.at).toISOString()} isZoned digits={3} />, Fate: describeFate(event),
    SDK: showText(`${event.lib} ${event.libVersion}`.trim()), 'Value at fault': event.value !== '' && <code>{showText(event.value)}</code>
  }
  return (
    <EventDialog name={name} uuid={uuid} distinctId={distinctId} facts={facts} onClose={onClose}>
      {sent !== '' && <details><summary>As a command</summary><Copyable text={toCurl(event, location.origin)} label='As a command' /></details>}
    </EventDialog>
  )
}

/** How the feed is, when it is not simply open. */
function FeedWord ({ feed, connected }: { feed: Feed, connected: boolean }) {
  const word = feed.state === 'open'
    ? connected ? 'Watching.' : 'ClickHouse is unavailable: events are accepted, and appear here when they are stored.'
    : { connecting: 'Connecting …', ended: 'Not watching: trying again.', hidden: 'Stopped while the page is hidden.' }[feed.state]
  return <span class='hint' role='status'>{word}</span>
}

function Filters () {
  return (
    <div class='toolbar filters'>
      <TypedFilter name='event' label='Event' />
      <TypedFilter name='distinct_id' label='Distinct id' />
      <Select
        label='Fate' value={query.value.get('fate') ?? ''} options={[['', 'any'], ...FATES.map((fate) => [fate, fate] as const)]}
        onChange={(value) => setQuery({ fate: value })}
      />
    </div>
  )
}
