import type { ComponentType } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { ChartChoice } from '../../../engines/charts/chart-model.ts'
import { ApiError, fetchFile } from '../api-client.ts'
import { DeleteDialog } from '../confirm.tsx'
import { useUnsaved } from '../frame/unsaved.tsx'
import { fileName, offerFile } from '../offer-file.ts'
import { navigate, projectId, shownProjectId } from '../router.ts'
import { may, whenSessionEnds } from '../session.ts'
import { QueryEditor } from './query-editor.tsx'
import { positionOf, type QueryRun, runQuery } from './query-result.ts'
import { ResultTable, RunFailure, RunStatus } from './result-view.tsx'
import { SaveDialog, savedQueriesPath, type SavedQuery, type SavedQueryFields } from './saved-queries.tsx'
import { defaultValue, findParameters, type Parameter, parameterValue, readLink, writeLink } from './sql-parameters.ts'
import { Select } from '../states.tsx'

export type Draft = SavedQueryFields

/** What is in the editor before somebody wrote something. */
export const FIRST: Draft = {
  query: 'SELECT event, count() AS events, uniq(person_id) AS people\nFROM events_with_person\nWHERE project_id = {project:UInt32} AND timestamp > now() - INTERVAL 7 DAY\nGROUP BY event\nORDER BY events DESC\nLIMIT 100',
  parameters: {}, chart: null
}

const ROWS = [1000, 10_000] as const

const drafts = new Map<number, Draft>()
whenSessionEnds(() => drafts.clear())

/** Keeps what was typed while other screens are shown. */
export function keepDraft (project: number, draft: Draft): void {
  drafts.set(project, draft)
}

/** The query of a link (`#sql=...`), else what was typed before. */
export function readDraft (project: number): Draft {
  const link = readLink(location.hash.slice(1))
  if (link !== undefined) {
    history.replaceState(null, '', location.pathname + location.search)
    drafts.set(project, { ...link, chart: null })
  }
  return drafts.get(project) ?? FIRST
}

/** A link that holds the query itself. Behind the #, it stays in the browser: no log has it. */
function linkOf ({ query, parameters }: Draft): string {
  return `${location.origin}/console/projects/${projectId.value}/sql#${writeLink(query, parameters)}`
}

interface WorkbenchProps {
  saved: SavedQuery | undefined
  draft: Draft
  onChanged: () => void
  onSaved: () => void
}

/** The run of a query, one at a time, and where its error is shown. */
function useRun (draft: Draft, parameters: Record<string, string>, maxRows: number) {
  const [run, setRun] = useState<QueryRun>()
  const [shownError, setShownError] = useState<number | null>(null)
  const running = useRef<AbortController>(undefined)
  useEffect(() => () => running.current?.abort(), [])

  async function start (): Promise<void> {
    if (draft.query.trim() === '') return
    running.current?.abort()
    const ended = running.current = new AbortController()
    const begun: QueryRun = { state: 'running', startedAt: performance.now(), query: draft.query, maxRows, columns: [], rows: [] }
    setShownError(null)
    setRun(begun)
    // What comes after another query was begun is no longer wanted.
    const onChange = (next: QueryRun): void => {
      if (ended.signal.aborted) return
      setRun(next)
      if (next.failure !== undefined) setShownError(positionOf(next.query, next.failure))
    }
    try {
      await runQuery({ query: draft.query, parameters, max_rows: maxRows }, begun, { onChange, signal: ended.signal })
    } catch (error) {
      onChange({ ...begun, state: 'failed', error: error instanceof ApiError ? error : new ApiError(0, 'broken_off', 'The answer was interrupted. Run the query again.') })
    }
  }

  /** Goes there again, wherever the caret is now. */
  function showError ({ query, failure }: QueryRun): void {
    setShownError(null)
    if (failure !== undefined) requestAnimationFrame(() => setShownError(positionOf(query, failure)))
  }

  function cancel (): void {
    running.current?.abort()
    setRun((before) => before === undefined ? before : { ...before, state: 'cancelled' })
  }

  return { run, start, cancel, shownError, setShownError, showError }
}

/** The values that were chosen, and those of parameters for which nobody has chosen one. */
function valuesOf (parameters: readonly Parameter[], chosen: Readonly<Record<string, string>>, project: number): Record<string, string> {
  return Object.fromEntries(parameters.map(({ name }) => [name, parameterValue(chosen, name) ?? defaultValue(name, { project, now: Date.now() })]))
}

/** Editor, parameters, run, result. */
export function Workbench ({ saved, draft: first, onChanged, onSaved }: WorkbenchProps) {
  const [draft, setDraft] = useState<Draft>({ query: first.query, parameters: first.parameters, chart: first.chart })
  const [maxRows, setMaxRows] = useState<number>(ROWS[0])
  const [open, setOpen] = useState<'save' | 'delete'>()
  const [notice, setNotice] = useState('')
  const project = shownProjectId()

  function change (changes: Partial<Draft>): void {
    setShownError(null)
    setDraft((before) => {
      const next = { ...before, ...changes }
      if (saved === undefined) keepDraft(project, next)
      return next
    })
  }

  const parameters = findParameters(draft.query)
  const values = valuesOf(parameters, draft.parameters, project)

  const { run, start, cancel, shownError, setShownError, showError } = useRun(draft, values, maxRows)

  function begin (): void {
    setNotice('')
    void start()
  }

  const isRunning = run?.state === 'running'
  const failure = run?.failure
  const isChanged = saved !== undefined && (saved.query !== draft.query || JSON.stringify(saved.chart) !== JSON.stringify(draft.chart) ||
    JSON.stringify(valuesOf(parameters, saved.parameters, project)) !== JSON.stringify(values))
  useUnsaved(isChanged && may('query:write'))
  return (
    <>
      <QueryEditor value={draft.query} onInput={(text) => change({ query: text })} onRun={begin} errorAt={shownError} />
      <Parameters
        parameters={parameters} values={values} onRun={begin}
        onInput={(name, value) => change({ parameters: { ...draft.parameters, [name]: value } })}
      />
      <div class='toolbar'>
        {isRunning
          ? <button type='button' class='primary run' onClick={cancel}>Cancel</button>
          : <button type='button' class='primary run' disabled={draft.query.trim() === ''} onClick={begin}>Run</button>}
        <Select
          label='First' value={maxRows} options={ROWS.map((rows) => [rows, `${rows.toLocaleString('en')} rows`] as const)}
          onChange={(value) => setMaxRows(Number(value))}
        />
        {may('query:write') && <button type='button' onClick={() => setOpen('save')}>Save …</button>}
        {saved !== undefined && may('query:write') && <button type='button' onClick={() => setOpen('delete')}>Delete …</button>}
        <Share draft={{ ...draft, parameters: values }} name={saved?.name} onNotice={setNotice} />
        {isChanged && <span class='hint'>Changed, not saved.</span>}
      </div>
      <p id='editor-keys' class='hint keys'><kbd>Ctrl</kbd>+<kbd>Enter</kbd> runs. {notice !== '' && <span role='status'>{notice}</span>}</p>
      <RunStatus run={run} />
      {run !== undefined && (failure !== undefined || run.error !== undefined) && (
        <RunFailure run={run} onShow={() => showError(run)} />
      )}
      {run !== undefined && run.columns.length > 0 && <Result run={run} chart={draft.chart} onChart={(chart) => change({ chart })} />}
      {open === 'delete' && saved !== undefined && (
        <DeleteDialog
          name={saved.name} path={savedQueriesPath(saved.id)} onClose={() => setOpen(undefined)}
          onDone={() => {
            onChanged()
            navigate(`/projects/${project}/sql`)
          }}
        >Links to this query will stop working. Nothing else is lost.
        </DeleteDialog>
      )}
      {open === 'save' && (
        <SaveDialog
          fields={{ ...draft, parameters: values }} saved={saved} onClose={() => setOpen(undefined)}
          onSaved={({ id }) => {
            onChanged()
            if (id === saved?.id) onSaved()
            else navigate(`/projects/${project}/sql?saved=${id}`)
          }}
        />
      )}
    </>
  )
}

/** The query as a link, its whole result as a file. @param name  Of the saved query. */
function Share ({ draft, name, onNotice }: { draft: Draft, name: string | undefined, onNotice: (text: string) => void }) {
  async function download (format: 'csv' | 'parquet'): Promise<void> {
    onNotice(`Fetching the whole result as ${format === 'csv' ? 'CSV' : 'Parquet'} …`)
    try {
      const file = await fetchFile('/api/sql/download', { method: 'POST', body: { query: draft.query, parameters: draft.parameters, format } })
      offerFile(file, fileName(name, format))
      onNotice('')
    } catch (error) {
      onNotice(error instanceof ApiError ? error.message : String(error))
    }
  }

  async function copyLink (): Promise<void> {
    const link = linkOf(draft)
    // Without TLS there is no clipboard: then the link is in the address bar.
    const isCopied = await navigator.clipboard?.writeText(link).then(() => true, () => false) ?? false
    if (!isCopied) history.replaceState(null, '', link)
    onNotice(isCopied ? 'Link copied. It contains the query.' : 'The link is in the address bar. It contains the query.')
  }

  return (
    <>
      <button type='button' onClick={() => { void copyLink() }}>Copy link</button>
      <button type='button' onClick={() => { void download('csv') }}>CSV</button>
      <button type='button' onClick={() => { void download('parquet') }}>Parquet</button>
    </>
  )
}

interface ParametersProps { parameters: Parameter[], values: Record<string, string>, onInput: (name: string, value: string) => void, onRun: () => void }

function Parameters ({ parameters, values, onInput, onRun }: ParametersProps) {
  if (parameters.length === 0) return null
  return (
    <fieldset class='parameters'>
      <legend class='hidden'>Parameters</legend>
      {parameters.map(({ name, type }) => (
        <label key={name}>
          {name} <span class='type'>{type}</span>
          <input value={values[name]} onInput={(event) => onInput(name, event.currentTarget.value)} onKeyDown={(event) => { if (event.key === 'Enter') onRun() }} />
        </label>
      ))}
    </fieldset>
  )
}

const VIEWS = [['Table', null], ['Line', 'line'], ['Bars', 'bar'], ['Areas', 'area'], ['Number', 'number']] as const

/** A result as a table, or drawn. */
function Result ({ run, chart, onChart }: { run: QueryRun, chart: ChartChoice | null, onChart: (chart: ChartChoice | null) => void }) {
  const [Chart, setChart] = useState<{ Component: ComponentType<{ columns: QueryRun['columns'], rows: QueryRun['rows'], choice: ChartChoice, onChoice: (choice: ChartChoice) => void }> }>()
  const isChart = chart !== null
  // Few results are drawn: its code comes when one is.
  useEffect(() => {
    if (isChart) void import('./result-chart.tsx').then(({ ResultChart }) => setChart({ Component: ResultChart }))
  }, [isChart])
  return (
    <>
      <div class='toolbar views' role='group' aria-label='Show as'>
        {VIEWS.map(([name, kind]) => (
          <button key={name} type='button' aria-pressed={(chart?.kind ?? null) === kind} onClick={() => onChart(kind === null ? null : { ...chart, kind })}>{name}</button>
        ))}
      </div>
      {chart !== null && Chart !== undefined && run.rows.length > 0 && (
        <Chart.Component columns={run.columns} rows={run.rows} choice={chart} onChoice={onChart} />
      )}
      <ResultTable key={run.startedAt} columns={run.columns} rows={run.rows} isDone={run.state === 'done'} />
    </>
  )
}
