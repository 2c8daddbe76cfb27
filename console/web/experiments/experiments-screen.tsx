import { useState } from 'preact/hooks'
import { request, type Page } from '../api-client.ts'
import { formatTime, showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { PAGE, Pager } from '../paging.tsx'
import { linkTo, path, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Empty, Show } from '../states.tsx'
import { describeMetric } from './describe-metric.ts'
import { type Experiment, statusOf } from './experiment.ts'
import { ExperimentDetail } from './experiment-detail.tsx'
import { NewExperiment } from './new-experiment.tsx'

/** The experiments of a project, one of them (`/<id>`), and a new one (`/new`). */
export function ExperimentsScreen () {
  const id = path.value[3]
  if (id === 'new') return <NewExperiment />
  if (id !== undefined) return <ExperimentDetail key={id} id={id} />
  return <ExperimentList />
}

function ExperimentList () {
  const [offset, setOffset] = useState(0)
  const experiments = useLoaded(`experiments ${projectId.value} ${offset}`, async (signal) =>
    await request<Page<Experiment>>(`/api/projects/${projectId.value}/experiments/`, { query: { limit: PAGE, offset }, signal }))
  return (
    <section>
      <h1>Experiments</h1>
      <p class='hint'>An experiment compares the variants of a flag, from the first time that somebody saw one.</p>
      {may('experiment:write') && <p><a class='button' {...linkTo(`/projects/${projectId.value}/experiments/new`)}>New experiment</a></p>}
      <Show of={experiments} what='Experiments'>
        {(page) => page.count === 0
          ? <Empty><p>There are no experiments yet.</p></Empty>
          : <ExperimentTable page={page} offset={offset} onOffset={setOffset} />}
      </Show>
    </section>
  )
}

function ExperimentTable ({ page, offset, onOffset }: { page: Page<Experiment>, offset: number, onOffset: (offset: number) => void }) {
  const { results } = page
  return (
    <>
      <Pager page={page} offset={offset} onOffset={onOffset} />
      <div class='scroll' role='region' aria-label='Experiments' tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope='col'>Name</th><th scope='col'>State</th><th scope='col'>Flag</th><th scope='col'>Measures</th>
              <th scope='col'>Start (UTC)</th><th scope='col'>End (UTC)</th>
            </tr>
          </thead>
          <tbody>
            {results.map((experiment) => (
              <tr key={experiment.id}>
                <td class='wide'><a {...linkTo(`/projects/${projectId.value}/experiments/${experiment.id}`)}>{showText(experiment.name, 80)}</a></td>
                <td>{statusOf(experiment, Date.now())}</td>
                <td>{showText(experiment.feature_flag_key, 60)}</td>
                <td class='wide'>{showText(describeMetric(experiment.filters), 120)}</td>
                <td>{formatTime(experiment.start_date)}</td>
                <td>{formatTime(experiment.end_date)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}
