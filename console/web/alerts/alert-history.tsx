import { useState } from 'preact/hooks'
import type { Answer } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { useAction } from '../confirm.tsx'
import { formatCount, showText, zoneLabel } from '../format.ts'
import { type Column, Rows } from '../frame/lists.tsx'
import { useAnswer } from '../load.ts'
import { projectId } from '../router.ts'
import { Empty, OnOff, Show, Time } from '../states.tsx'
import type { Alert } from './describe-alert.ts'

type Windows = Answer<'/api/projects/{project_id}/alerts/{id}/windows'>
type DryRun = Answer<'/api/projects/{project_id}/alerts/dry_run', 'post'>

export function alertsPath (id?: number | string): string {
  return `/api/projects/${projectId.value}/alerts/${id === undefined ? '' : `${id}/`}`
}

/** Whether it is on and fires, and why its next window cannot be evaluated. */
export function AlertState ({ of: { condition, enabled, is_firing: isFiring, last_error: error } }: { of: Alert }) {
  const failure = error !== null && <div class='error'>{showText(error, 300)}</div>
  if (!enabled) return <OnOff isOn={false} />
  return <>{isFiring ? <span class='tag refused'>firing</span> : <OnOff isOn>{condition === null ? 'on' : 'quiet'}</OnOff>}{failure}</>
}

type Window = Windows['results'][number]

const COLUMNS = (): Column<Window>[] => [
  [`Window from (${zoneLabel()})`, ({ from }) => <Time at={from} />],
  ['to', ({ to }) => <Time at={to} />],
  ['#Value', ({ value }) => value], ['#A week before', ({ before }) => before],
  ['Outcome', ({ outcome }) => outcome === null ? '' : <span class={outcome === 'fired' ? 'tag refused' : 'tag'}>{outcome}</span>]
]

/** When the draft would have fired in the last 30 days. */
export function Trial ({ draft: { about, every, condition } }: { draft: Pick<Alert, 'about' | 'every' | 'condition'> }) {
  const [found, setFound] = useState<DryRun>()
  const { isBusy, run, failure } = useAction(async () => {
    setFound(await request<DryRun>(`/api/projects/${projectId.value}/alerts/dry_run/`, { method: 'POST', body: { about, every, condition } }))
  })
  const fired = found?.results.filter(({ outcome }) => outcome === 'fired').length ?? 0
  return (
    <>
      <h2>Dry run</h2>
      <div class='toolbar'>
        <button type='button' aria-disabled={isBusy} onClick={() => { if (!isBusy) run() }}>Run over 30 days</button>
        <span role='status'>
          {isBusy ? 'Evaluating …' : found === undefined ? '' : `Would have fired ${fired === 1 ? 'once' : `${formatCount(fired)} times`} in ${formatCount(found.windows)} windows.`}
        </span>
      </div>
      {failure}
      {found !== undefined && found.results.length > 0 && <Rows label='Dry run' of={found.results} columns={COLUMNS()} />}
    </>
  )
}

/** Windows that are shown at first. */
const SHOWN = 48

/** The evaluated windows of an alert, newest first. */
export function History ({ id }: { id: number }) {
  const windows = useAnswer<Windows>(`/api/projects/${projectId.value}/alerts/${id}/windows/`, {}, { everyMs: 10_000 })
  const [isWhole, setWhole] = useState(false)
  return (
    <>
      <h2>History</h2>
      <Show of={windows} what='History'>
        {({ results }) => results.length === 0
          ? <Empty><p>No window was evaluated yet.</p></Empty>
          : (
            <>
              <Rows label='History' of={isWhole ? results : results.slice(0, SHOWN)} columns={COLUMNS()} keyOf={({ to }) => to} />
              {results.length > SHOWN && !isWhole && <p><button type='button' onClick={() => setWhole(true)}>Show all {formatCount(results.length)}</button></p>}
            </>
            )}
      </Show>
    </>
  )
}
