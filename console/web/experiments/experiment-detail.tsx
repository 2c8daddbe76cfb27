import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { Ask } from '../confirm.tsx'
import { formatZoned, showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Again, Show } from '../states.tsx'
import { countSecondaryMetrics, describeMetric, nameOfMetric } from './describe-metric.ts'
import { type Experiment, type ExperimentResults, type SecondaryResults, statusOf } from './experiment.ts'
import { MetricPicture, ResultsPicture } from './results-picture.tsx'
import { Title } from '../title.tsx'

const pathOf = (id: number | string): string => `/api/projects/${projectId.value}/experiments/${id}`

/** What can be done with an experiment, by its state, and what that does. */
const STEPS: Record<string, { name: string, what: string, fields: () => object }[]> = {
  draft: [{ name: 'Launch', what: 'The flag is turned on, and from now on everyone who sees a variant counts. Variants cannot be changed while it runs.', fields: () => ({ start_date: new Date().toISOString() }) }],
  planned: [{ name: 'Back to draft', what: 'The flag is off, unless another experiment runs on it.', fields: () => ({ start_date: null }) }],
  running: [{ name: 'End', what: 'What happens later does not count. The flag stays as it is: decide there what everybody gets.', fields: () => ({ end_date: new Date().toISOString() }) }],
  ended: [
    { name: 'Go on', what: 'It runs again, and the flag is on; what happened in between counts too.', fields: () => ({ end_date: null }) },
    { name: 'Archive', what: 'It is marked as archived. Nothing else changes.', fields: () => ({ archived: true }) }
  ],
  archived: [{ name: 'Back from the archive', what: 'It is no longer marked as archived.', fields: () => ({ archived: false }) }]
}

/** One experiment: where it stands, what can be done, and its results. */
export function ExperimentDetail ({ id }: { id: string }) {
  const experiment = useLoaded(`experiment ${projectId.value} ${id}`, async (signal) => await request<Experiment>(`${pathOf(encodeURIComponent(id))}/`, { signal }))
  return (
    <section>
      <p><a {...linkTo(`/projects/${projectId.value}/experiments`)}>Experiments</a></p>
      <Show of={experiment} what='The experiment'>{(value) => <Opened experiment={value} onChanged={experiment.reload} />}</Show>
    </section>
  )
}

function Opened ({ experiment, onChanged }: { experiment: Experiment, onChanged: () => void }) {
  const status = statusOf(experiment, Date.now())
  const [step, setStep] = useState<(typeof STEPS)[string][number]>()
  return (
    <>
      <Title name={experiment.name} max={120} />
      {experiment.description !== '' && <p>{showText(experiment.description, 1000)}</p>}
      <dl class='facts'>
        <div><dt>State</dt><dd>{status}</dd></div>
        <div>
          <dt>Flag</dt>
          <dd>
            {may('feature_flag:read')
              ? <a {...linkTo(`/projects/${projectId.value}/flags/${experiment.feature_flag.id}`)}>{showText(experiment.feature_flag_key, 60)}</a>
              : showText(experiment.feature_flag_key, 60)}
            {experiment.feature_flag.active ? '' : ' (off)'}
          </dd>
        </div>
        <div><dt>Measures</dt><dd>{showText(describeMetric(experiment.filters), 300)}</dd></div>
        <div><dt>Start</dt><dd>{formatZoned(experiment.start_date)}</dd></div>
        <div><dt>End</dt><dd>{formatZoned(experiment.end_date)}</dd></div>
      </dl>
      {may('experiment:write') && (
        <div class='toolbar'>
          {STEPS[status]?.map((each) => <button key={each.name} type='button' onClick={() => setStep(each)}>{each.name} …</button>)}
        </div>
      )}
      {step !== undefined && <StepDialog experiment={experiment} step={step} onClose={() => setStep(undefined)} onDone={onChanged} />}
      <h2>Results</h2>
      {status === 'draft' || status === 'planned'
        ? <p class='hint'>There are none before the start: what happened earlier does not count.</p>
        : <ShownResults experiment={experiment} />}
    </>
  )
}

function ShownResults ({ experiment }: { experiment: Experiment }) {
  const [refresh, setRefresh] = useState(0)
  const results = useLoaded(`results ${projectId.value} ${experiment.id} ${experiment.updated_at} ${refresh}`, async (signal) =>
    await request<ExperimentResults>(`${pathOf(experiment.id)}/results/`, { query: { refresh: refresh > 0 }, signal }))
  return (
    <>
      <Show of={results} what='Results'>{(value) => <ResultsPicture results={value} />}</Show>
      <ShownSecondary experiment={experiment} refresh={refresh} />
      <p><Again of={{ isLoading: results.isLoading, reload: () => setRefresh((before) => before + 1) }}>Compute again</Again></p>
    </>
  )
}

interface StepDialogProps {
  experiment: Experiment
  step: (typeof STEPS)[string][number]
  onClose: () => void
  onDone: () => void
}

function StepDialog ({ experiment, step, onClose, onDone }: StepDialogProps) {
  const run = async (): Promise<void> => {
    await request(`${pathOf(experiment.id)}/`, { method: 'PATCH', body: step.fields() })
    onDone()
  }
  return (
    <Ask title={`${step.name}: ${showText(experiment.name, 60)}`} action={step.name} onClose={onClose} onConfirm={run}>
      <p>{step.what}</p>
    </Ask>
  )
}

/** The further metrics of an experiment, each as the primary one but for the course of time. */
function ShownSecondary ({ experiment, refresh }: { experiment: Experiment, refresh: number }) {
  const count = countSecondaryMetrics(experiment.secondary_metrics)
  const results = useLoaded(`secondary results ${projectId.value} ${experiment.id} ${experiment.updated_at} ${refresh}`, async (signal) =>
    count === 0
      ? { analysis: [] }
      : await request<SecondaryResults>(`/api/projects/${projectId.value}/experiments/${experiment.id}/secondary_results/`, { query: { refresh: refresh > 0 }, signal }))
  if (count === 0) return null
  return (
    <>
      <h2>Secondary metrics</h2>
      <p class='hint'>Each is judged by itself: of twenty metrics without any effect, one shows a difference by chance.</p>
      <Show of={results} what='Secondary metrics'>
        {({ analysis }) => (
          <>
            {analysis.map((result, index) => (
              <section key={index} aria-label={showText(nameOfMetric(result.metric), 100)}>
                <h3>{showText(nameOfMetric(result.metric), 100)}</h3>
                <MetricPicture result={result} />
              </section>
            ))}
          </>
        )}
      </Show>
    </>
  )
}
