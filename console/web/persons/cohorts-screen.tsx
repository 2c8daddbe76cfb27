import { useState } from 'preact/hooks'
import type { Answer, Schema } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { DeleteDialog, useAction } from '../confirm.tsx'
import { useCohortNames } from '../flags/cohorts.ts'
import { formatCount, formatCounted, showText, UNKNOWN } from '../format.ts'
import { OneOf, Rows } from '../frame/lists.tsx'
import { useAnswer } from '../load.ts'
import { linkTo, navigate, path, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Ago, Empty, Facts, Show, UnknownEvents } from '../states.tsx'
import { Title } from '../title.tsx'
import { NewCohort } from './new-cohort.tsx'

type Cohort = Schema<'Cohort'>

/** Members are found every few minutes, and within seconds when asked. */
const EVERY_MS = 5000

const KINDS: Record<Cohort['kind'], string> = { properties: 'properties', behavior: 'behavior', question: 'from a number, living', list: 'list' }
const PLACES: Record<string, string> = { flag: 'flags', cohort: 'cohorts', question: 'questions', experiment: 'experiments' }

const cohortsPath = (id = ''): string => `/api/projects/${projectId.value}/cohorts/${id}`

export function CohortsScreen () {
  const id = path.value[3]
  useCohortNames()
  return id === undefined ? <CohortList /> : <CohortDetail key={id} id={id} />
}

function CohortList () {
  const [isNew, setNew] = useState(false)
  const cohorts = useAnswer<{ results: Cohort[] }>(cohortsPath(), {}, { everyMs: EVERY_MS })
  const home = `/projects/${projectId.value}/cohorts`
  return (
    <section>
      <h1>Cohorts</h1>
      <p class='hint'>Sets of persons by properties or behavior, for questions, flags and experiments. Members are refreshed every five minutes. To save the persons behind a number of a question, open the number.</p>
      {may('feature_flag:write') && <div class='toolbar'><button type='button' class='primary' onClick={() => setNew(true)}>New cohort …</button></div>}
      <Show of={cohorts} what='The cohorts'>
        {({ results }) => results.length === 0
          ? <Empty>There are no cohorts yet.</Empty>
          : (
            <Rows
              label='Cohorts' of={results} keyOf={({ id }) => id} columns={[
                ['Name', ({ id, name }) => <a {...linkTo(`${home}/${id}`)}>{showText(name, 80)}</a>, 'wide'],
                ['By', ({ kind }) => KINDS[kind]],
                ['#Persons', ({ people }) => people ?? UNKNOWN],
                ['As of', (cohort) => <AsOf of={cohort} />]
              ]}
            />
            )}
      </Show>
      {isNew && <NewCohort path={cohortsPath()} onDone={({ id }) => navigate(`${home}/${id}`)} onClose={() => setNew(false)} />}
    </section>
  )
}

function AsOf ({ of: { as_of: at, error } }: { of: Pick<Cohort, 'as_of' | 'error'> }) {
  return <>{at === null ? 'not computed yet' : <Ago at={at} />}{error !== '' && <div class='error'>{showText(error, 300)}</div>}</>
}

function CohortDetail ({ id }: { id: string }) {
  const cohort = useAnswer<Answer<'/api/projects/{project_id}/cohorts/{id}'>>(cohortsPath(id), {}, { everyMs: EVERY_MS })
  const [isDeleting, setDeleting] = useState(false)
  const refresh = useAction(async () => {
    await request(`${cohortsPath(id)}/refresh`, { method: 'POST' })
    cohort.reload()
  })
  const home = `/projects/${projectId.value}`
  return (
    <OneOf home='cohorts' title='Cohorts' of={cohort} what='The cohort'>
      {({ name, kind, people, filters, question, used_by: uses, unknown_events: unknown, ...of }) => (
        <>
          <Title name={name} max={120} />
          <Facts
            of={{
              By: KINDS[kind], Persons: people === null ? 'not counted yet' : formatCount(people), 'As of': <AsOf of={of} />,
              'Used by': uses.length === 0
                ? 'nothing'
                : uses.map(({ kind, id, name }) => <div key={`${kind} ${id}`}>{kind} <a {...linkTo(`${home}/${PLACES[kind] ?? kind}/${id}`)}>{showText(name, 80)}</a></div>)
            }}
          />
          {may('feature_flag:write') && (
            <p class='toolbar'>
              <button type='button' disabled={refresh.isBusy} onClick={refresh.run}>Refresh</button>
              <a class='button' {...linkTo(`${home}/flags/new?cohort=${id}`)}>New flag for it</a>
              <button type='button' onClick={() => setDeleting(true)}>Delete …</button>
            </p>
          )}
          {refresh.failure}
          <UnknownEvents names={unknown} />
          {kind === 'list'
            ? <p class='hint'>A fixed list of {formatCounted(people, 'stored person', 'stored persons')}.</p>
            : <pre tabIndex={0} aria-label='Definition'>{JSON.stringify(filters ?? question, null, 2)}</pre>}
          {isDeleting && <DeleteDialog name={name} path={cohortsPath(id)} onDone={() => navigate(`${home}/cohorts`)} onClose={() => setDeleting(false)}>Refused while something uses it.</DeleteDialog>}
        </>
      )}
    </OneOf>
  )
}
