import { useState } from 'preact/hooks'
import { formatCount, formatCounted, showText, zoneLabel } from '../format.ts'
import { BackTo, Rows } from '../frame/lists.tsx'
import { useAnswer } from '../load.ts'
import { PAGE, Pager, Place, usePages } from '../paging.tsx'
import { linkTo, path, projectId, query, setQuery } from '../router.ts'
import { may } from '../session.ts'
import { Ago, Empty, Select, Show, Sparkline, Time } from '../states.tsx'
import {
  base, type DeadLetterGroup, type DeadLetterGroups, fetchLetters, type Filter, filterOf, STAGES
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
  const groups = useAnswer<DeadLetterGroups>(`${base()}/groups`, { ...filter }, { everyMs: EVERY_MS })
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
  // Groups may have gone since the page was chosen.
  const offset = wanted < groups.results.length ? wanted : 0
  const shown = groups.results.slice(offset, offset + PAGE)
  const goTo = (to: number): (() => void) | undefined => to < 0 || to >= groups.results.length ? undefined : () => setOffset(to)
  const nameOf = ({ event }: DeadLetterGroup): string => event === null ? 'not about one event' : showText(event, 60)
  return (
    <>
      {groups.results.length > PAGE && (
        <Pager of={{ onBack: goTo(offset - PAGE), onNext: goTo(offset + PAGE) }}>
          <Place offset={offset} shown={shown.length} count={groups.results.length} />
        </Pager>
      )}
      <Rows
        label='Groups of dead letters' class='dense' of={shown} keyOf={(group) => JSON.stringify(filterOf(group))} columns={[
          ['Event', (group) => <a {...linkTo(`/projects/${projectId.value}/dead-letters?${new URLSearchParams(filterOf(group)).toString()}`)}>{nameOf(group)}</a>],
          ['Stage and reason', ({ stage, reason, error_code: code }) => (
            <span title={STAGES[stage]}>{stage} · <code>{reason}</code>{code !== null && <> · code {showText(code, 20)}</>}</span>
          )],
          ['Newest error', ({ error }) => showText(error, 160), 'wide'],
          ['#Letters', ({ count }) => count],
          ['Last 24 h', ({ by_hour: hours }) => <Sparkline values={hours} label={`${formatCount(hours.reduce((sum, count) => sum + count, 0))} in the last 24 hours`} />],
          ['First', ({ first }) => <Ago at={first} />], ['Last', ({ last }) => <Ago at={last} />],
          may('dead_letter:write') && ['-Actions', (group) => (
            <button type='button' onClick={() => onReplay(filterOf(group))}>Replay<span class='hidden'> {formatCount(group.count)} of {nameOf(group)}</span> …</button>
          )]
        ]}
      />
      {groups.ungrouped > 0 && <p class='hint'>{formatCount(groups.ungrouped)} more are in smaller groups, not shown.</p>}
    </>
  )
}

/** The dead letters of one group, a page at a time, oldest first. */
export function LetterList ({ filter }: { filter: Required<Filter> }) {
  const [isReplaying, setReplaying] = useState(false)
  const [isPurging, setPurging] = useState(false)
  const letters = usePages(`letters ${projectId.value} ${JSON.stringify(filter)}`,
    async (page, signal) => await fetchLetters(filter, page, signal))
  return (
    <section>
      <BackTo home='dead-letters' title='Dead letters' />
      <Title name={filter.event === '' ? 'Not about one event' : filter.event} max={60} />
      <p class='hint'>{filter.stage} · <code>{filter.reason}</code>{filter.error_code !== '' && <> · code {showText(filter.error_code, 20)}</>}</p>
      <Show of={letters} what='Dead letters'>
        {(page) => page.count === 0
          ? <Empty><p>No dead letters left: all were replayed or purged.</p></Empty>
          : (
            <>
              <Pager of={letters}>
                <Place offset={letters.offset} shown={page.results.length} count={page.count} />
                {may('dead_letter:write') && (
                  <>
                    <button type='button' onClick={() => setReplaying(true)}>Replay all {formatCount(page.count)} …</button>
                    <button type='button' onClick={() => setPurging(true)}>Purge …</button>
                  </>
                )}
              </Pager>
              <Rows
                label='Dead letters' of={page.results} columns={[
                  ['#Id', ({ id }) => <a {...linkTo(`/projects/${projectId.value}/dead-letters/${id}`)}>{id}</a>],
                  [`Dead-lettered (${zoneLabel()})`, ({ time }) => <Time at={time} />],
                  ['Event uuid', ({ uuid, rows }) => <code>{uuid ?? (rows === null ? '' : formatCounted(rows, 'event'))}</code>],
                  ['Error', ({ error }) => showText(error), 'wide']
                ]}
              />
            </>
            )}
      </Show>
      {isPurging && <PurgeDialog what={filter} onClose={() => setPurging(false)} onDone={letters.reload} />}
      {isReplaying && <ReplayDialog filter={filter} onClose={() => setReplaying(false)} onDone={letters.reload} />}
    </section>
  )
}
