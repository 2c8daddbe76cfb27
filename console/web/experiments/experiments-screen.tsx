import { useState } from 'preact/hooks'
import { request, serverNow } from '../api-client.ts'
import { useAttempt } from '../confirm.tsx'
import { showText, zoneLabel } from '../format.ts'
import { BackTo, ListScreen } from '../frame/lists.tsx'
import { useList } from '../paging.tsx'
import { linkTo, navigate, path, projectId } from '../router.ts'
import { may } from '../session.ts'
import { NameLists, useNames } from '../questions/event-fields.tsx'
import { Checkbox, Failed, Form, Time } from '../states.tsx'
import { Title } from '../title.tsx'
import { describeMetric } from './describe-metric.ts'
import { type Experiment, statusOf } from './describe-experiment.ts'
import { ExperimentDetail } from './experiment-detail.tsx'
import { EMPTY_METRIC, MetricFields } from './metric-fields.tsx'

export function ExperimentsScreen () {
  const id = path.value[3]
  if (id === 'new') return <NewExperiment />
  if (id !== undefined) return <ExperimentDetail key={id} id={id} />
  return <ExperimentList />
}

function ExperimentList () {
  const home = `/projects/${projectId.value}/experiments`
  return (
    <ListScreen
      title='Experiments' hint='An experiment compares the variants of a flag, from the first exposure of each person.'
      of={useList<Experiment>(`/api${home}/`)} none='There are no experiments yet.' keyOf={({ id }) => id}
      tools={may('experiment:write') && <a class='button' {...linkTo(`${home}/new`)}>New experiment</a>}
      columns={[
        ['Name', ({ id, name }) => <a {...linkTo(`${home}/${id}`)}>{showText(name, 80)}</a>, 'wide'],
        ['State', (experiment) => statusOf(experiment, serverNow())],
        ['Flag', ({ feature_flag_key: key }) => showText(key, 60)],
        ['Measures', ({ filters }) => showText(describeMetric(filters), 120), 'wide'],
        [`Start (${zoneLabel()})`, ({ start_date: at }) => <Time at={at} />],
        [`End (${zoneLabel()})`, ({ end_date: at }) => <Time at={at} />]
      ]}
    />
  )
}

/** A draft: the flag is made with it, or an existing one is linked. */
function NewExperiment () {
  const [fields, setFields] = useState({ name: '', flag: '', effect: '5' })
  const [metric, setMetric] = useState(EMPTY_METRIC)
  const [isCuped, setCuped] = useState(false)
  const names = useNames('events', 'properties')
  const { isBusy, error, attempt } = useAttempt()
  const set = (name: keyof typeof fields) => (event: { currentTarget: { value: string } }): void => {
    const { value } = event.currentTarget
    setFields((before) => ({ ...before, [name]: value }))
  }

  async function create (): Promise<void> {
    const { name, flag, effect } = fields
    await attempt(async () => {
      const experiment = await request<Experiment>(`/api/projects/${projectId.value}/experiments/`, {
        method: 'POST',
        body: {
          name, feature_flag_key: flag, filters: { metric },
          parameters: { minimum_detectable_effect: Number(effect), ...isCuped && { stats_config: { cuped: { enabled: true } } } }
        }
      })
      navigate(`/projects/${projectId.value}/experiments/${experiment.id}`)
    })
  }

  return (
    <section>
      <BackTo home='experiments' title='Experiments' />
      <Title name='New experiment' />
      <Form class='stacked' onSubmit={create}>
        <label>Name <input required value={fields.name} onInput={set('name')} /></label>
        <label>Key of the flag; an unknown key creates a flag with variants control and test, 50 % each <input required value={fields.flag} onInput={set('flag')} /></label>
        <NameLists names={names} />
        <MetricFields metric={metric} names={names} onChange={setMetric} />
        <label>Smallest change worth detecting, in percent <input type='number' required min='0.1' step='any' value={fields.effect} onInput={set('effect')} /></label>
        <Checkbox label='Adjust by the same metric in the 14 days before (CUPED): narrower intervals for returning people' isOn={isCuped} onChange={setCuped} />
        {error !== undefined && <Failed error={error} onRetry={() => { void create() }} />}
        <p class='actions'><button type='submit' class='primary' disabled={isBusy}>Create a draft</button></p>
      </Form>
    </section>
  )
}
