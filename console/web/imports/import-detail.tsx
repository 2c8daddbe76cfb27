import type { Schema } from '../../api-types.ts'
import { useEffect, useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { Ask } from '../confirm.tsx'
import { formatAgo, formatBytes, formatCount, formatCounted, formatRate, formatZoned, showText } from '../format.ts'
import { type Column, OneOf, Rows } from '../frame/lists.tsx'
import { useAnswer } from '../load.ts'
import { linkTo, navigate, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Facts } from '../states.tsx'
import { Title } from '../title.tsx'
import { describe } from './describe-import.ts'

/** An import reports this often, in milliseconds. */
export const REPORT_INTERVAL_MS = 3000

export function ImportDetail ({ id }: { id: string }) {
  const home = `/projects/${projectId.value}/imports`
  // One that is not complete may be resumed.
  const [isOver, setOver] = useState(false)
  const shown = useAnswer<Schema<'ImportDetail'>>(`/api${home}/${id}/`, {}, isOver ? {} : { everyMs: REPORT_INTERVAL_MS })
  useEffect(() => { setOver(shown.value?.state.startsWith('complete') === true) }, [shown.value])
  return (
    <OneOf home='imports' title='Imports' of={shown} what='The import'>
      {(value) => (
        <>
          <Title name={nameOf(value)} />
          <p role='status'><State of={value} /> {describe(value).next}</p>
          {may('event:write') && <Actions of={value} home={home} onStopped={shown.reload} />}
          <ImportFacts of={value} />
          <Result of={value} />
        </>
      )}
    </OneOf>
  )
}

export const nameOf = ({ source, mode, id }: Schema<'Import'>): string => showText(`${source}, ${mode.replace('_', ' ')} ${id}`)

export function State ({ of }: { of: Schema<'Import'> }) {
  const { text, style } = describe(of)
  return <span class={`tag ${style}`}>{text}</span>
}

const STOP = { title: 'Stop the import', action: 'Stop', text: 'It ends at its next report. Sent events stay, and the same command resumes the import.' } as const
const DELETE = { title: 'Delete the report', action: 'Delete', text: 'The report and its proof are deleted. The events and the files written by the command stay.' } as const

function Actions ({ of, home, onStopped }: { of: Schema<'ImportDetail'>, home: string, onStopped: () => void }) {
  const [open, setOpen] = useState<typeof STOP | typeof DELETE>()
  const run = async (): Promise<void> => {
    await request(`/api${home}/${of.id}/${open === STOP ? 'stop/' : ''}`, { method: open === STOP ? 'POST' : 'DELETE' })
    if (open === STOP) onStopped()
    else navigate(home)
  }
  return (
    <div class='toolbar'>
      {of.ended_at === null && of.stop_requested_at === null && <button type='button' onClick={() => setOpen(STOP)}>Stop …</button>}
      {(of.ended_at !== null || of.is_silent) && <button type='button' onClick={() => setOpen(DELETE)}>Delete the report …</button>}
      {open !== undefined && <Ask title={open.title} action={open.action} onClose={() => setOpen(undefined)} onConfirm={run}><p>{open.text}</p></Ask>}
    </div>
  )
}

function ImportFacts ({ of }: { of: Schema<'ImportDetail'> }) {
  const { progress, bytes, files, file_count: count, ended_at: ended, result, error } = of
  const names = files.slice(0, 20).map(({ name }) => showText(name))
  const facts = {
    Rows: `${formatCount(progress.rows)}, ${formatCount(progress.rejected)} rejected`,
    Events: `${formatCount(progress.accepted)} accepted${ended === null ? `, ${formatRate(progress.events_per_second)} a second` : ''}`,
    'In the files': result && `${formatCounted(result.events, 'event')}, ${formatCounted(result.duplicates, 'duplicate')}, ${formatCount(result.altered)} altered, ${formatCount(result.conflicting)} conflicting, ${formatCount(result.stored)} stored now`,
    'Not read completely': result?.broken.map((file) => showText(file)).join('; '),
    'The command said': result?.notices.map((notice) => showText(notice)).join(' · '),
    'Ended by': error,
    [formatCounted(count, 'file')]: `${names.join(', ')}${count > names.length ? ', …' : ''}`,
    Options: of.options.map((each) => showText(each)).join(' '),
    Started: `${formatZoned(of.started_at)}${of.created_by === null ? '' : ` by ${showText(of.created_by.email)}`}`,
    ...ended === null ? { 'Last report': formatAgo(of.last_reported_at, Date.now()) } : { Ended: formatZoned(ended) }
  }
  return (
    <>
      <p class='progress'><progress aria-label='Bytes read' max={Math.max(1, bytes)} value={Math.min(progress.bytes_read, bytes)} /> {formatBytes(progress.bytes_read)} of {formatBytes(bytes)}</p>
      <Facts of={facts} />
    </>
  )
}

function Result ({ of: { progress: { reasons }, result } }: { of: Schema<'ImportDetail'> }) {
  const { equal = 0, groups = 0, rows = [], differences = [] } = result?.proof ?? {}
  return (
    <>
      {reasons.length > 0 && <h2>Rejected rows</h2>}
      <LongRows label='Rejected rows by reason' of={[...reasons].sort((a, b) => b.rows - a.rows)} columns={[['Reason', ({ reason }) => showText(reason), 'value'], ['#Rows', ({ rows }) => rows]]} />
      {groups > 0 && <h2>Proof</h2>}
      {groups > 0 && <p>{formatCount(equal)} of {formatCount(groups)} days and names are stored exactly as in the files.{rows.length < groups && ` The first ${formatCount(rows.length)} are shown.`}</p>}
      <LongRows
        label='Events that differ' of={differences} columns={[
          ['Event', ({ event }) => showText(event), 'value'], ['Day (UTC)', ({ day }) => <time>{day}</time>],
          ['What', ({ what }) => what === 'properties' ? 'other properties' : what],
          ['Uuid', ({ uuid }) => <a {...linkTo(`/projects/${projectId.value}/find?uuid=${uuid}`)}><code>{uuid}</code></a>]
        ]}
      />
      <LongRows
        label='Proof by day and event' of={rows} columns={[
          ['Day (UTC)', ({ day }) => <time>{day}</time>], ['Event', ({ event }) => showText(event), 'value'], ['#In the files', ({ events }) => events],
          ['#Missing', ({ missing }) => missing], ['#Changed', ({ changed }) => changed], ['#Other properties', ({ other_properties: other }) => other]
        ]}
      />
    </>
  )
}

function LongRows<T> (props: { label: string, of: readonly T[], columns: readonly Column<T>[] }) {
  return props.of.length > 0 && <Rows {...props} class={props.of.length > 20 ? 'days' : ''} />
}
