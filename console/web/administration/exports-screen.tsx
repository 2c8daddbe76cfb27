import { useState } from 'preact/hooks'
import type { Schema } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { Ask, DeleteDialog, FormDialog } from '../confirm.tsx'
import { formatBytes, showText, zoneLabel } from '../format.ts'
import { ListScreen, RowAction } from '../frame/lists.tsx'
import { useList } from '../paging.tsx'
import { projectId } from '../router.ts'
import { may } from '../session.ts'
import { Select, Time } from '../states.tsx'

type Export = Schema<'Export'>

/** Windows go on: they are asked for again after so long, in milliseconds. */
const EVERY_MS = 10_000

const S3_FIELDS = {
  endpoint: 'Endpoint; empty: Amazon', region: 'Region', bucket: 'Bucket', prefix: 'Prefix of names',
  access_key_id: 'Access key id', secret_access_key: 'Secret access key'
}
const TABLES = ['events', 'persons', 'merges'] as const

type Open = { what: 'new' } | { what: 'pause' | 'run' | 'delete', of: Export }

/** Exports of the project with how far each has come. */
export function ExportsScreen () {
  const path = `/api/projects/${projectId.value}/exports/`
  const exports = useList<Export>(path, {}, { everyMs: EVERY_MS })
  const [open, setOpen] = useState<Open>()
  const mayWrite = may('project:write')
  const shared = { onClose: () => setOpen(undefined), onDone: exports.reload }
  return (
    <ListScreen
      title='Exports' of={exports} keyOf={({ id }) => id} none='There are no exports yet.'
      hint='Parquet files in a folder or S3, written when a window of arrival is complete. Each row is in exactly one file.'
      tools={mayWrite && <button type='button' class='primary' onClick={() => setOpen({ what: 'new' })}>New export …</button>}
      columns={[
        ['Export', (one) => <>{showText(one.name, 63)}<div class='hint'>{one.target.kind} {showText(one.folder, 200)}</div></>, 'wide'],
        ['Every', ({ schedule, tables }) => `${schedule}, ${tables.join(', ')}`],
        [`Complete through (${zoneLabel()})`, ({ done_through: at }) => <Time at={at} />],
        ['Late', (one) => <Lag of={one} />],
        ['#Files', ({ progress }) => progress.files], ['#Rows', ({ progress }) => progress.rows],
        ['Size', ({ progress }) => formatBytes(progress.bytes)], ['#To write', ({ progress }) => progress.planned],
        mayWrite && ['-Actions', (one) => (
          <>
            <RowAction of={one.name} title={one.paused ? 'Resume' : 'Pause'} onPress={() => setOpen({ what: 'pause', of: one })} />{' '}
            <RowAction of={one.name} title='Earlier windows' onPress={() => setOpen({ what: 'run', of: one })} />{' '}
            <RowAction of={one.name} title='Delete' onPress={() => setOpen({ what: 'delete', of: one })} />
          </>
        )]
      ]}
    >
      {open?.what === 'new' && <NewExport path={path} {...shared} />}
      {open?.what === 'run' && <Backfill path={`${path}${open.of.id}/run/`} {...shared} />}
      {open?.what === 'delete' && (
        <DeleteDialog name={open.of.name} path={`${path}${open.of.id}/`} {...shared}>
          Its files are kept. Persons erased later are not removed from them.
        </DeleteDialog>
      )}
      {open?.what === 'pause' && (
        <Ask
          title={open.of.paused ? 'Resume the export' : 'Pause the export'} action={open.of.paused ? 'Resume' : 'Pause'} {...shared}
          onConfirm={async () => await request(`${path}${open.of.id}/`, { method: 'PATCH', body: { paused: !open.of.paused } })}
        >
          <p>Scheduled windows wait while it is paused, and follow in order. Backfills and erasures are still written.</p>
        </Ask>
      )}
    </ListScreen>
  )
}

interface Dialogs { path: string, onClose: () => void, onDone: () => void }

function Lag ({ of: { paused, lag_seconds: seconds, error } }: { of: Export }) {
  const text = paused ? 'paused' : seconds < 60 ? 'no' : `${Math.round(seconds / 60)} min`
  return <>{text}{error !== '' && <div class='error'>{showText(error, 300)}</div>}</>
}

function NewExport ({ path, ...dialog }: Dialogs) {
  const [name, setName] = useState('')
  const [schedule, setSchedule] = useState('hour')
  const [kind, setKind] = useState('folder')
  const [place, setPlace] = useState<Record<string, string>>({ region: 'us-east-1' })
  const [tables, setTables] = useState<readonly string[]>(['events'])
  const toggle = (table: string): void => setTables(TABLES.filter((each) => tables.includes(each) !== (each === table)))
  const create = async () => await request(path, {
    method: 'POST', body: { name, schedule, tables, target: kind === 's3' ? { kind, ...place } : { kind } }
  })
  return (
    <FormDialog title='New export' action='Create' isReady={name !== '' && tables.length > 0} onConfirm={create} {...dialog}>
      <label>Name, part of the path <input value={name} maxLength={63} onInput={(event) => setName(event.currentTarget.value)} /></label>
      <Select label='Every' value={schedule} options={[['hour', 'hour'], ['day', 'day']]} onChange={setSchedule} />
      <Select label='To' value={kind} options={[['folder', 'the export folder of the server'], ['s3', 'S3 or compatible storage']]} onChange={setKind} />
      {kind === 's3' && Object.entries(S3_FIELDS).map(([field, label]) => {
        const onInput = (event: { currentTarget: { value: string } }): void => setPlace({ ...place, [field]: event.currentTarget.value })
        const shared = { value: place[field] ?? '', onInput }
        return <label key={field}>{label} {field === 'secret_access_key' ? <input type='password' autocomplete='off' {...shared} /> : <input {...shared} />}</label>
      })}
      <fieldset>
        <legend>Tables</legend>
        {TABLES.map((table) => (
          <label key={table}><input type='checkbox' checked={tables.includes(table)} onChange={() => toggle(table)} /> {table}</label>
        ))}
      </fieldset>
    </FormDialog>
  )
}

function Backfill ({ path, ...dialog }: Dialogs) {
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  const run = async () => await request(path, { method: 'POST', body: { from: `${from}T00:00:00Z`, to: `${to}T00:00:00Z` } })
  return (
    <FormDialog title='Export earlier windows' action='Export' isReady={from !== '' && to !== ''} onConfirm={run} {...dialog}>
      <p class='hint'>Days in UTC. Windows already written do not change.</p>
      <label>From <input type='date' value={from} onInput={(event) => setFrom(event.currentTarget.value)} /></label>
      <label>To (exclusive) <input type='date' value={to} onInput={(event) => setTo(event.currentTarget.value)} /></label>
    </FormDialog>
  )
}
