import type { Answer } from '../../api-types.ts'
import { useEffect, useState } from 'preact/hooks'
import { type Page, request } from '../api-client.ts'
import { Ask } from '../confirm.tsx'
import { showText } from '../format.ts'
import { useAnswer, useLoaded } from '../load.ts'
import { Search } from '../paging.tsx'
import { linkTo, query, setQuery, shownProjectId } from '../router.ts'
import { whenSessionEnds } from '../session.ts'
import { Show } from '../states.tsx'
import { LISTED, savedQueriesPath, type SavedQuery, SavedQueryList } from './saved-queries.tsx'
import { FIRST, keepDraft, readDraft, Workbench } from './workbench.tsx'
import definitionUsage from '../../../docs/query/queries/definition_usage.sql'
import experimentExposure from '../../../docs/query/queries/experiment_exposure.sql'
import funnel from '../../../docs/query/queries/funnel.sql'
import groups from '../../../docs/query/queries/groups.sql'
import paths from '../../../docs/query/queries/paths.sql'
import persons from '../../../docs/query/queries/persons.sql'
import propertyBreakdown from '../../../docs/query/queries/property_breakdown.sql'
import retention from '../../../docs/query/queries/retention.sql'
import sessions from '../../../docs/query/queries/sessions.sql'
import trend from '../../../docs/query/queries/trend.sql'
import { Title } from '../title.tsx'

type Table = Answer<'/api/sql/tables'>['results'][number]

/** SQL for analysts: a query, its result, and the queries that were kept. */
export function SqlScreen () {
  const project = shownProjectId()
  const savedId = Number(query.value.get('saved') ?? 0) || undefined
  const search = query.value.get('search') ?? ''
  const list = useAnswer<Page<SavedQuery>>(savedQueriesPath(), { search, limit: LISTED })
  const saved = useLoaded(`saved query ${project} ${savedId}`, async (signal) =>
    savedId === undefined ? undefined : await request<SavedQuery>(savedQueriesPath(savedId), { signal }))
  const tables = useAnswer<Answer<'/api/sql/tables'>>('/api/sql/tables')
  const [taken, setTaken] = useState(0)
  const take = (): void => setTaken((before) => before + 1)
  // A link is also pasted into a tab that shows the screen.
  useEffect(() => {
    addEventListener('hashchange', take)
    return () => removeEventListener('hashchange', take)
  }, [])
  const isOpen = savedId === undefined || saved.value !== undefined
  const asked = SAMPLES.find(({ name }) => name === query.value.get('sample'))
  const sample = asked !== undefined && keepSample(project, asked.query) ? asked : undefined
  return (
    <section class='sql'>
      <div class='workbench'>
        {saved.value === undefined ? <h1>SQL</h1> : <Title name={saved.value.name} max={120} />}
        {saved.value !== undefined && saved.value.description !== '' && <p class='hint'>{showText(saved.value.description, 3000)}</p>}
        {isOpen
          ? <Workbench key={`${project} ${savedId} ${sample?.name} ${taken}`} saved={saved.value} draft={saved.value ?? readDraft(project)} onChanged={list.reload} onSaved={saved.reload} />
          : <Show of={saved} what='The query'>{() => null}</Show>}
        {asked !== undefined && sample === undefined && (
          <Ask
            title='Replace your query?' action='Replace' onConfirm={async () => showSample(project, asked.query)}
            onClose={() => isShown(project, asked.query) ? take() : setQuery({ sample: '' })}
          >
            <p>The sample takes the place of the query in the editor, which is not saved.</p>
          </Ask>
        )}
      </div>
      <aside aria-label='Queries and tables'>
        <h2>Saved</h2>
        {savedId !== undefined && <p><a {...linkTo(`/projects/${project}/sql`)}>New query</a></p>}
        <Search label='Search saved queries' />
        <SavedQueryList list={list} current={savedId} />
        <h2>Samples</h2>
        <ul class='names'>
          {SAMPLES.map(({ name, answers }) => (
            <li key={name}>
              <a {...linkTo(`/projects/${project}/sql?sample=${encodeURIComponent(name)}`)} aria-current={sample?.name === name ? 'true' : undefined}>{name}</a>
              <span class='hint'>{answers}</span>
            </li>
          ))}
        </ul>
        <h2>Tables</h2>
        <Show of={tables} what='The tables'>{({ results }) => <Tables tables={results} />}</Show>
      </aside>
    </section>
  )
}

let shown = ''
whenSessionEnds(() => { shown = '' })

const isShown = (project: number, text: string): boolean => shown === `${project} ${text}`

/** Puts a sample into the editor once, so later edits stay. @returns false when that would replace what somebody wrote. */
function keepSample (project: number, text: string): boolean {
  if (isShown(project, text)) return true
  const before = readDraft(project).query.trim()
  if (!['', FIRST.query, ...SAMPLES.map((each) => each.query.trim())].includes(before)) return false
  showSample(project, text)
  return true
}

function showSample (project: number, text: string): void {
  shown = `${project} ${text}`
  keepDraft(project, { query: text.trimEnd(), parameters: {}, chart: null })
}

function Tables ({ tables }: { tables: readonly Table[] }) {
  return (
    <>
      {tables.map(({ name, comment, columns }) => (
        <details key={name}>
          <summary><code>{showText(name, 80)}</code></summary>
          <p class='hint'>{showText(comment, 400)}</p>
          <ul class='columns'>
            {columns.map((column) => (
              <li key={column.name}><code>{showText(column.name, 80)}</code> <span class='type'>{showText(column.type, 80)}</span><br /><span class='hint'>{showText(column.comment, 400)}</span></li>
            ))}
          </ul>
        </details>
      ))}
    </>
  )
}

/** The queries of `docs/query/queries`, as they are: a test there counts their answers by hand. */
export interface Sample { name: string, answers: string, query: string }

const SAMPLES: readonly Sample[] = [
  { name: 'Trend', answers: 'Events and people by day', query: trend },
  { name: 'Funnel', answers: 'Number of people who reached each of three steps', query: funnel },
  { name: 'Retention', answers: 'People first seen on a day, and when they came back', query: retention },
  { name: 'Paths', answers: 'Transitions between pages', query: paths },
  { name: 'Sessions', answers: 'Length, first page and size of sessions', query: sessions },
  { name: 'Persons', answers: 'Events by person, merges followed', query: persons },
  { name: 'Groups', answers: 'Events and people by group', query: groups },
  { name: 'Exposure to an experiment', answers: 'People by variant', query: experimentExposure },
  { name: 'Breakdown by property', answers: 'An event by the values of a property', query: propertyBreakdown },
  { name: 'Use of definitions', answers: 'Volumes and properties of all events, over all time', query: definitionUsage }
]
