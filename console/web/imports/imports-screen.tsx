import type { Answer, Schema } from '../../api-types.ts'
import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { Copyable, useAction } from '../confirm.tsx'
import { formatBytes, showText, zoneLabel } from '../format.ts'
import { useAnswer } from '../load.ts'
import { BackTo, ListScreen } from '../frame/lists.tsx'
import { useList } from '../paging.tsx'
import { linkTo, navigate, path, shownProjectId } from '../router.ts'
import { may } from '../session.ts'
import { Empty, Form, Select, Show, Time } from '../states.tsx'
import { buildRun, FIELDS, NO_PLAN, SOURCES } from './describe-import.ts'
import { ImportDetail, nameOf, REPORT_INTERVAL_MS, State } from './import-detail.tsx'

type Files = Answer<'/api/projects/{project_id}/imports/files'>

const GUIDE = <code>docs/run/import.md</code>
const RATES = [['1000', '1,000'], [NO_PLAN.rate, '5,000'], ['20000', '20,000'], ['0', 'no limit']] as const
const PERSONS = [['export', 'an export of persons'], ['events', 'the events: there is no export']] as const

export function ImportsScreen () {
  const id = path.value[3]
  if (id === 'new' && may('event:write')) return <NewImport />
  return id === undefined || id === 'new' ? <ImportList /> : <ImportDetail key={id} id={id} />
}

function ImportList () {
  const home = `/projects/${shownProjectId()}/imports`
  return (
    <ListScreen
      title='Imports' of={useList<Schema<'Import'>>(`/api${home}/`, {}, { everyMs: REPORT_INTERVAL_MS })} keyOf={({ id }) => id}
      hint='Import history from other products. A command reads the files, sends their events, and verifies that all are stored.'
      tools={may('event:write') && <a class='button' {...linkTo(`${home}/new`)}>New import</a>} none={<p>No imports yet. {GUIDE} explains what can be imported, and how.</p>}
      columns={[
        ['Import', (each) => <a {...linkTo(`${home}/${each.id}`)}>{nameOf(each)}</a>], ['State', (each) => <State of={each} />],
        ['Read', ({ progress, bytes }) => `${formatBytes(progress.bytes_read)} of ${formatBytes(bytes)}`],
        ['#Rows', ({ progress }) => progress.rows], ['#Rejected', ({ progress }) => progress.rejected], ['#Accepted', ({ progress }) => progress.accepted],
        ['#Per second', ({ progress, ended_at: end }) => end === null ? progress.events_per_second : null],
        [`Started (${zoneLabel()})`, ({ started_at: at }) => <Time at={at} />], ['Ended', ({ ended_at: at }) => <Time at={at} />]
      ]}
    />
  )
}

/** A page sends no files: they are on the server, or the command runs where they are. */
function NewImport () {
  const project = shownProjectId()
  const home = `/projects/${project}/imports`
  const offered = useAnswer<Files>(`/api${home}/files/`, {}, { everyMs: REPORT_INTERVAL_MS })
  return (
    <section>
      <BackTo home='imports' title='Imports' />
      <h1>New import</h1>
      <p class='hint'>{GUIDE} explains how to export the files, and how fields are mapped.</p>
      <Show of={offered} what='Files on the server'>
        {({ folder, files }) => folder === null
          ? <Empty><p>The API runs no imports: it has no <code>MILLRACE_IMPORT_FOLDER</code>.</p></Empty>
          : (
            <>
              <p class='hint'>Copy exports to <code>{showText(folder)}</code> on the server to choose them here.</p>
              {files.length > 0 ? <Run files={files} home={home} /> : <Empty><p>No files yet.</p></Empty>}
            </>
            )}
      </Show>
      <h2>Files elsewhere</h2>
      <p>
        Run the command where they are, with a personal API key (project:read, event:read, event:write) in <code>MILLRACE_KEY</code>.{' '}
        A dry run reads, counts, and sends nothing.
      </p>
      <Copyable text={`npx millrace import posthog ./export --url ${location.origin} --project ${project} --dry-run`} label='Dry run' />
    </section>
  )
}

function nameFile ({ name, bytes }: Files['files'][number]): [string, string] {
  return [name, bytes === null ? `${showText(name)}/` : `${showText(name)}, ${formatBytes(bytes)}`]
}

const MODES = [['true', 'a dry run: nothing is sent'], ['false', 'the import, with its proof']] as const

/** Starts it on the server, and goes to its report. */
function Run ({ files, home }: { files: Files['files'], home: string }) {
  const [plan, setPlan] = useState(NO_PLAN)
  const [isDryRun, setDryRun] = useState(true)
  const { source, columns } = plan
  const change = (changes: Partial<typeof NO_PLAN>): void => setPlan({ ...plan, ...changes })
  const { isBusy, run, failure } = useAction(async () => {
    const { id } = await request<Answer<'/api/projects/{project_id}/imports/run', 'post'>>(`/api${home}/run/`, { method: 'POST', body: buildRun(plan, isDryRun) })
    navigate(id === null ? home : `${home}/${id}`)
  })
  return (
    <Form class='stacked' onSubmit={() => { if (!isBusy) run() }}>
      <Select label='From' value={source} options={Object.entries(SOURCES)} onChange={(source) => change({ source })} />
      <Select label='Files or folders' value={plan.name} options={[['', 'all'], ...files.map(nameFile)]} onChange={(name) => change({ name })} />
      {source === 'posthog' && <Select label='Persons come from' value={plan.persons} options={PERSONS} onChange={(persons) => change({ persons })} />}
      {source === 'mixpanel' && <label>Time zone, if made before 2023 <input value={plan.timezone} onInput={(event) => change({ timezone: event.currentTarget.value })} /></label>}
      {source === 'files' && FIELDS.map((field) => (
        <label key={field}>
          Column of {field}; empty: guessed
          <input value={columns[field] ?? ''} onInput={(event) => change({ columns: { ...columns, [field]: event.currentTarget.value } })} />
        </label>
      ))}
      <Select label='Events a second at most' value={plan.rate} options={RATES} onChange={(rate) => change({ rate })} />
      <Select label='This is' value={String(isDryRun)} options={MODES} onChange={(chosen) => setDryRun(chosen === 'true')} />
      {failure}
      <p class='actions'><button type='submit' class='primary' disabled={isBusy}>Start</button></p>
    </Form>
  )
}
