import type { Answer, Schema } from '../../api-types.ts'
import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { Copyable, useAction } from '../confirm.tsx'
import { formatBytes, showText, zoneLabel } from '../format.ts'
import { useAnswer } from '../load.ts'
import { BackTo, ListScreen } from '../frame/lists.tsx'
import { useList } from '../paging.tsx'
import { linkTo, navigate, path, shownProjectId } from '../router.ts'
import { Empty, Form, Select, Show, Time } from '../states.tsx'
import { buildCommand, buildRun, FIELDS, listPaths, NO_PLAN, SOURCES } from './describe-import.ts'
import { ImportDetail, nameOf, REPORT_INTERVAL_MS, State } from './import-detail.tsx'

type Files = Answer<'/api/projects/{project_id}/imports/files'>

const GUIDE = <code>docs/run/import.md</code>
const RATES = [['1000', '1,000'], [NO_PLAN.rate, '5,000'], ['20000', '20,000'], ['0', 'no limit']] as const
const PLACES = [['false', 'on the server'], ['true', 'elsewhere: a command']] as const
const PERSONS = [['export', 'an export of persons'], ['events', 'the events: there is no export']] as const

export function ImportsScreen () {
  const id = path.value[3]
  return id === 'new' ? <NewImport /> : id === undefined ? <ImportList /> : <ImportDetail key={id} id={id} />
}

function ImportList () {
  const home = `/projects/${shownProjectId()}/imports`
  return (
    <ListScreen
      title='Imports' of={useList<Schema<'Import'>>(`/api${home}/`, {}, { everyMs: REPORT_INTERVAL_MS })} keyOf={({ id }) => id}
      hint='Import history from other products. A command reads the files, sends their events, and verifies that all are stored.'
      tools={<a class='button' {...linkTo(`${home}/new`)}>New import</a>} none={<p>No imports yet. {GUIDE} explains what can be imported, and how.</p>}
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

/** What an import is asked for. A page sends no files: they are on the server, or its command runs where they are. */
function NewImport () {
  const home = `/projects/${shownProjectId()}/imports`
  const offered = useAnswer<Files>(`/api${home}/files/`, {}, { everyMs: REPORT_INTERVAL_MS })
  const [isElsewhere, setElsewhere] = useState(false)
  const [plan, setPlan] = useState(NO_PLAN)
  const change = (changes: Partial<typeof NO_PLAN>): void => setPlan({ ...plan, ...changes })
  const { source, columns } = plan
  return (
    <section>
      <BackTo home='imports' title='Imports' />
      <h1>New import</h1>
      <p class='hint'>{GUIDE} explains how to export the files, and how fields are mapped.</p>
      <Show of={offered} what='Files on the server'>
        {({ folder, files }) => (
          <>
            <form class='stacked' onSubmit={(event) => event.preventDefault()}>
              <Select label='From' value={source} options={Object.entries(SOURCES)} onChange={(source) => change({ source })} />
              {folder !== null && <Select label='The files are' value={String(isElsewhere)} options={PLACES} onChange={(chosen) => setElsewhere(chosen === 'true')} />}
              {folder !== null && !isElsewhere
                ? <Select label='Files or folders' value={plan.name} options={[['', 'all'], ...files.map(nameFile)]} onChange={(name) => change({ name })} />
                : (
                  <label>
                    Files or folders there, one a line
                    <textarea rows={2} value={plan.paths} onInput={(event) => change({ paths: event.currentTarget.value })} />
                  </label>
                  )}
              {source === 'posthog' && <Select label='Persons come from' value={plan.persons} options={PERSONS} onChange={(persons) => change({ persons })} />}
              {source === 'mixpanel' && <label>Time zone, if made before 2023 <input value={plan.timezone} onInput={(event) => change({ timezone: event.currentTarget.value })} /></label>}
              {source === 'files' && FIELDS.map((field) => (
                <label key={field}>
                  Column of {field}; empty: guessed
                  <input value={columns[field] ?? ''} onInput={(event) => change({ columns: { ...columns, [field]: event.currentTarget.value } })} />
                </label>
              ))}
              <Select label='Events a second at most' value={plan.rate} options={RATES} onChange={(rate) => change({ rate })} />
            </form>
            {folder !== null && !isElsewhere && <p class='hint'>Copy exports to <code>{showText(folder)}</code> on the server to choose them here.</p>}
            {folder === null || isElsewhere
              ? <Commands of={plan} />
              : files.length > 0 ? <Run of={plan} home={home} /> : <Empty><p>No files yet.</p></Empty>}
          </>
        )}
      </Show>
    </section>
  )
}

function nameFile ({ name, bytes }: Files['files'][number]): [string, string] {
  return [name, bytes === null ? `${showText(name)}/` : `${showText(name)}, ${formatBytes(bytes)}`]
}

const MODES = [['true', 'a dry run: nothing is sent'], ['false', 'the import, with its proof']] as const

/** Starts it on the server, and goes to its report. */
function Run ({ of, home }: { of: typeof NO_PLAN, home: string }) {
  const [isDryRun, setDryRun] = useState(true)
  const { isBusy, run, failure } = useAction(async () => {
    const { id } = await request<Answer<'/api/projects/{project_id}/imports/run', 'post'>>(`/api${home}/run/`, { method: 'POST', body: buildRun(of, isDryRun) })
    navigate(id === null ? home : `${home}/${id}`)
  })
  return (
    <Form class='stacked' onSubmit={() => { if (!isBusy) run() }}>
      <Select label='This is' value={String(isDryRun)} options={MODES} onChange={(chosen) => setDryRun(chosen === 'true')} />
      {failure}
      <p class='actions'><button type='submit' class='primary' disabled={isBusy}>Start</button></p>
    </Form>
  )
}

function Commands ({ of: plan }: { of: typeof NO_PLAN }) {
  const command = (isDryRun: boolean): string => buildCommand(plan, { url: location.origin, project: shownProjectId() }, isDryRun)
  return listPaths(plan.paths).length === 0
    ? <Empty><p>Enter files or folders to see the commands.</p></Empty>
    : (
      <>
        <h2>1. Dry run</h2>
        <p>Asks for a personal API key (project:read, event:read, event:write), kept out of the shell history; reads, counts, and sends nothing.</p>
        <Copyable text='read -rs MILLRACE_KEY && export MILLRACE_KEY' label='Asks for the key' />
        <Copyable text={command(true)} label='Dry run' />
        <h2>2. Import</h2>
        <p>Sends the events, and verifies that all are stored. Safe to repeat: each event is stored once.</p>
        <Copyable text={command(false)} label='Import' />
      </>
      )
}
