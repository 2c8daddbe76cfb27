import { useState } from 'preact/hooks'
import { formatAgo, formatCount, formatCounted, formatUtc, showText, zoneLabel } from '../format.ts'
import { useLoaded } from '../load.ts'
import { PAGE, Pager, usePages } from '../paging.tsx'
import { linkTo, path, projectId, query, setQuery } from '../router.ts'
import { may } from '../session.ts'
import { Empty, Select, Show, Sparkline, Table, Time } from '../states.tsx'
import {
  type DeadLetterGroup, type DeadLetterGroups, fetchGroups, fetchLetters, type Filter, filterOf, STAGES
} from './dead-letter-requests.ts'
import { LetterDetail } from './letter-detail.tsx'
import { PurgeDialog, ReplayDialog } from './letter-dialogs.tsx'
import { Title } from '../title.tsx'

/** Groups are counted again this often, in milliseconds. */
const EVERY_MS = 15_000

/** What could not be stored: groups, the letters of one group (`?stage=…`), and one letter (`/<id>`). */
export function DeadLettersScreen () {
  const id = path.value[3]
  if (id !== undefined) return <LetterDetail key={id} id={id} />
  const reason = query.value.get('reason')
  if (reason === null) return <Groups />
  const read = (name: string): string => query.value.get(name) ?? ''
  return <LetterList key={query.value.toString()} filter={{ stage: read('stage'), reason, error_code: read('error_code'), event: read('event') }} />
}

function Groups () {
  const [stage, event] = [query.value.get('at'), query.value.get('event')]
  const filter: Filter = { ...(stage === null ? {} : { stage }), ...(event === null ? {} : { event }) }
  const groups = useLoaded(`groups ${projectId.value} ${JSON.stringify(filter)}`,
    async (signal) => await fetchGroups(filter, signal), { everyMs: EVERY_MS })
  const [replaying, setReplaying] = useState<Filter>()
  return (
    <section>
      <h1>Dead letters</h1>
      <p class='hint'>Acknowledged events and person updates that could not be stored. Nothing is lost: fix the cause, then replay them.</p>
      <div class='toolbar'>
        <Select
          label='Stage' value={filter.stage ?? ''} options={[['', 'all'], ...Object.keys(STAGES).map((stage) => [stage, stage] as const)]}
          onChange={(value) => setQuery({ at: value })}
        />
        {event !== null && (
          <>
            <span>Only of <strong>{showText(event, 60)}</strong></span>
            <button type='button' onClick={() => setQuery({ event: '' })}>Show all events</button>
          </>
        )}
        {groups.value !== undefined && groups.value.count > 0 && may('dead_letter:write') && (
          <button type='button' onClick={() => setReplaying(filter)}>Replay all {formatCount(groups.value.count)} …</button>
        )}
      </div>
      <Show of={groups} what='Dead letters'>{(value) => <GroupTable groups={value} isFiltered={(stage ?? event) !== null} onReplay={setReplaying} />}</Show>
      {replaying !== undefined && (
        <ReplayDialog filter={replaying} onClose={() => setReplaying(undefined)} onDone={groups.reload} />
      )}
    </section>
  )
}

function GroupTable ({ groups, isFiltered, onReplay }: { groups: DeadLetterGroups, isFiltered: boolean, onReplay: (filter: Filter) => void }) {
  const [wanted, setOffset] = useState(0)
  if (groups.count === 0) return <Empty><p>{isFiltered ? 'No dead letters match.' : 'There are no dead letters.'}</p></Empty>
  const now = Date.now()
  // Groups may have gone since the page was chosen.
  const offset = wanted < groups.results.length ? wanted : 0
  const shown = groups.results.slice(offset, offset + PAGE)
  const isMore = offset + PAGE < groups.results.length
  return (
    <>
      {groups.results.length > PAGE && (
        <Pager page={{ count: groups.results.length, next: isMore ? 'more' : null, results: shown }} offset={offset} onOffset={setOffset} />
      )}
      <Table
        label='Groups of dead letters' class='dense'
        head={['Event', 'Stage and reason', 'Newest error', '#Letters', 'Last 24 h', 'First', 'Last', may('dead_letter:write') && '-Actions']}
      >
        {shown.map((group) => <GroupRow key={JSON.stringify(filterOf(group))} group={group} now={now} onReplay={onReplay} />)}
      </Table>
      {groups.ungrouped > 0 && <p class='hint'>{formatCount(groups.ungrouped)} more are in smaller groups, not shown.</p>}
    </>
  )
}

function GroupRow ({ group, now, onReplay }: { group: DeadLetterGroup, now: number, onReplay: (filter: Filter) => void }) {
  const filter = filterOf(group)
  const name = group.event === null ? 'not about one event' : showText(group.event, 60)
  return (
    <tr>
      <td><a {...linkTo(`/projects/${projectId.value}/dead-letters?${new URLSearchParams(filter).toString()}`)}>{name}</a></td>
      <td title={STAGES[group.stage]}>
        {group.stage} · <code>{group.reason}</code>{group.error_code !== null && <> · code {showText(group.error_code, 20)}</>}
      </td>
      <td class='wide'>{showText(group.error, 160)}</td>
      <td class='number'>{formatCount(group.count)}</td>
      <td><Sparkline values={group.by_hour} label={`${formatCount(group.by_hour.reduce((sum, count) => sum + count, 0))} in the last 24 hours`} /></td>
      <td title={formatUtc(group.first)}>{formatAgo(group.first, now)}</td>
      <td title={formatUtc(group.last)}>{formatAgo(group.last, now)}</td>
      {may('dead_letter:write') && (
        <td>
          <button type='button' onClick={() => onReplay(filter)}>
            Replay<span class='hidden'> {formatCount(group.count)} of {name}</span> …
          </button>
        </td>
      )}
    </tr>
  )
}

/** The dead letters of one group, a page at a time, oldest first. */
export function LetterList ({ filter }: { filter: Required<Filter> }) {
  const [isReplaying, setReplaying] = useState(false)
  const [isPurging, setPurging] = useState(false)
  const letters = usePages(`letters ${projectId.value} ${JSON.stringify(filter)}`,
    async (page, signal) => await fetchLetters(filter, page, signal))
  const home = `/projects/${projectId.value}/dead-letters`
  return (
    <section>
      <p><a {...linkTo(home)}>Dead letters</a></p>
      <Title name={filter.event === '' ? 'Not about one event' : filter.event} max={60} />
      <p class='hint'>{filter.stage} · <code>{filter.reason}</code>{filter.error_code !== '' && <> · code {showText(filter.error_code, 20)}</>}</p>
      <Show of={letters} what='Dead letters'>
        {(page) => page.count === 0
          ? <Empty><p>No dead letters left: all were replayed or purged.</p></Empty>
          : (
            <>
              <Pager page={page} offset={letters.offset} onOffset={letters.onOffset}>
                {may('dead_letter:write') && (
                  <>
                    <button type='button' onClick={() => setReplaying(true)}>Replay all {formatCount(page.count)} …</button>
                    <button type='button' onClick={() => setPurging(true)}>Purge …</button>
                  </>
                )}
              </Pager>
              <Table label='Dead letters' head={['#Id', `Dead-lettered (${zoneLabel()})`, 'Event uuid', 'Error']}>
                {page.results.map((letter) => (
                  <tr key={letter.id}>
                    <td class='number'><a {...linkTo(`${home}/${letter.id}`)}>{letter.id}</a></td>
                    <td><Time at={letter.time} /></td>
                    <td><code>{letter.uuid ?? (letter.rows === null ? '' : formatCounted(letter.rows, 'event'))}</code></td>
                    <td class='wide'>{showText(letter.error)}</td>
                  </tr>
                ))}
              </Table>
            </>
            )}
      </Show>
      {isPurging && <PurgeDialog what={filter} onClose={() => setPurging(false)} onDone={letters.reload} />}
      {isReplaying && <ReplayDialog filter={filter} onClose={() => setReplaying(false)} onDone={letters.reload} />}
    </section>
  )
}
