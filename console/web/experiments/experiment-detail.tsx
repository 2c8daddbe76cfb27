import { useState } from 'preact/hooks'
import { fieldsOf } from '../../../engines/fields.ts'
import { request, serverNow } from '../api-client.ts'
import { Ask } from '../confirm.tsx'
import { showText } from '../format.ts'
import { OneOf } from '../frame/lists.tsx'
import { type Loaded, useAnswer, useLoaded } from '../load.ts'
import { linkTo, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Again, Facts, Show, Time } from '../states.tsx'
import { AnalysisDialog, Holdout, Plan } from './analysis-fields.tsx'
import { describeMetric, listSecondaryMetrics, nameOfMetric } from './describe-metric.ts'
import { type Experiment, type ExperimentResults, type SecondaryResults, statusOf } from './describe-experiment.ts'
import { SecondaryDialog } from './metric-fields.tsx'
import { MetricPicture, ResultsPicture } from './results-picture.tsx'
import { Title } from '../title.tsx'
import { decide } from './verdict.ts'

const pathOf = (id: number | string): string => `/api/projects/${projectId.value}/experiments/${id}`

/** What can be done with an experiment, by its state, and what that does. */
const STEPS: Record<string, { name: string, what: string, fields: () => object }[]> = {
  draft: [{ name: 'Launch', what: 'Turns the flag on; from now on, everyone who sees a variant counts. Variants cannot be changed while it runs.', fields: () => ({ start_date: new Date(serverNow()).toISOString() }) }],
  planned: [{ name: 'Back to draft', what: 'Turns the flag off, unless another experiment runs on it.', fields: () => ({ start_date: null }) }],
  running: [{ name: 'End', what: 'Later events do not count. The flag does not change: decide there what everyone gets.', fields: () => ({ end_date: new Date(serverNow()).toISOString() }) }],
  ended: [
    { name: 'Resume', what: 'Turns the flag on again. Events since the end count as well.', fields: () => ({ end_date: null }) },
    { name: 'Archive', what: 'It is marked as archived. Nothing else changes.', fields: () => ({ archived: true }) }
  ],
  archived: [{ name: 'Back from the archive', what: 'It is no longer marked as archived.', fields: () => ({ archived: false }) }]
}

export function ExperimentDetail ({ id }: { id: string }) {
  const experiment = useAnswer<Experiment>(`${pathOf(encodeURIComponent(id))}/`)
  return (
    <OneOf home='experiments' title='Experiments' of={experiment} what='The experiment'>
      {(value) => <Opened experiment={value} onChanged={experiment.reload} />}
    </OneOf>
  )
}

function Opened ({ experiment, onChanged }: { experiment: Experiment, onChanged: () => void }) {
  const status = statusOf(experiment, serverNow())
  const flag = showText(experiment.feature_flag_key, 60)
  const further = listSecondaryMetrics(experiment.secondary_metrics)
  const [step, setStep] = useState<(typeof STEPS)[string][number]>()
  const [editing, setEditing] = useState<'metrics' | 'analysis'>()
  const dialog = { experiment, path: `${pathOf(experiment.id)}/`, onClose: () => setEditing(undefined), onDone: onChanged }
  return (
    <>
      <Title name={experiment.name} max={120} />
      {experiment.description !== '' && <p>{showText(experiment.description, 1000)}</p>}
      <Facts
        of={{
          State: status,
          Flag: <>{may('feature_flag:read') ? <a {...linkTo(`/projects/${projectId.value}/flags/${experiment.feature_flag.id}`)}>{flag}</a> : flag}{!experiment.feature_flag.active && ' (off)'}</>,
          Measures: showText(describeMetric(experiment.filters), 300) + (further.length === 0 ? '' : `; also ${showText(further.map((each) => describeMetric(fieldsOf(each))).join('; '), 600)}`),
          Start: <Time at={experiment.start_date} isZoned />, End: <Time at={experiment.end_date} isZoned />
        }}
      />
      {may('experiment:write') && (
        <div class='toolbar'>
          {STEPS[status]?.map((each) => <button key={each.name} type='button' onClick={() => setStep(each)}>{each.name} …</button>)}
          <button type='button' onClick={() => setEditing('metrics')}>Secondary metrics …</button>
          <button type='button' onClick={() => setEditing('analysis')}>Analysis …</button>
        </div>
      )}
      {editing === 'metrics' && <SecondaryDialog {...dialog} />}
      {editing === 'analysis' && <AnalysisDialog {...dialog} />}
      {step !== undefined && (
        <Ask
          title={`${step.name}: ${showText(experiment.name, 60)}`} action={step.name} onClose={() => setStep(undefined)} onDone={onChanged}
          onConfirm={async () => await request(`${pathOf(experiment.id)}/`, { method: 'PATCH', body: step.fields() })}
        >
          <p>{step.what}</p>
        </Ask>
      )}
      <h2>Results</h2>
      {status === 'draft' || status === 'planned'
        ? (
          <>
            <p class='hint'>No results before the start: earlier events do not count.</p>
            <Plan path={pathOf(experiment.id)} />
          </>
          )
        : <ShownResults experiment={experiment} status={status} />}
      <Holdout experiment={experiment} />
    </>
  )
}

function ShownResults ({ experiment, status }: { experiment: Experiment, status: string }) {
  const [refresh, setRefresh] = useState(0)
  const results = useLoaded(`results ${projectId.value} ${experiment.id} ${experiment.updated_at} ${refresh}`, async (signal) =>
    await request<ExperimentResults>(`${pathOf(experiment.id)}/results/`, { query: { refresh: refresh > 0 }, signal }))
  const count = listSecondaryMetrics(experiment.secondary_metrics).length
  const secondary = useLoaded(`secondary results ${projectId.value} ${experiment.id} ${experiment.updated_at} ${refresh}`, async (signal) =>
    count === 0
      ? { analysis: [] }
      : await request<SecondaryResults>(`${pathOf(experiment.id)}/secondary_results/`, { query: { refresh: refresh > 0 }, signal }))
  // In the text: a role may stand in four places of a metric (`read-metric.ts`).
  const hasGuardrails = JSON.stringify(experiment.secondary_metrics).includes('"role":"guardrail"')
  const guardrails = hasGuardrails ? secondary.value?.analysis.filter(({ role }) => role === 'guardrail') ?? null : []
  return (
    <>
      <Show of={results} what='Results'>
        {(value) => {
          const decision = decide(value.result, status !== 'running', guardrails)
          return <ResultsPicture results={value} decision={decision}>{status === 'ended' && decision.choice !== undefined && <ToEverybody {...value} choice={decision.choice} />}</ResultsPicture>
        }}
      </Show>
      {(results.value ?? results.error) !== undefined && (
        <>
          {count > 0 && <ShownSecondary of={secondary} />}
          <p><Again of={{ isLoading: results.isLoading, reload: () => setRefresh((before) => before + 1) }}>Compute again</Again></p>
        </>
      )}
    </>
  )
}

/** The way to a draft of the flag, which is looked at and saved there. */
function ToEverybody ({ feature_flag: flag, choice }: ExperimentResults & { choice: string }) {
  if (flag.deleted || !may('feature_flag:write')) return null
  const draft = `/projects/${projectId.value}/flags/${flag.id}?${new URLSearchParams({ everybody: choice }).toString()}`
  return <p class='toolbar'><a class='button' {...linkTo(draft)}>Roll out {showText(choice, 40)} to everyone …</a><span class='hint'>Opens a draft of the flag; nothing changes until you save it.</span></p>
}

/** The further metrics of an experiment, each as the primary one but for the course of time. */
function ShownSecondary ({ of }: { of: Loaded<Pick<SecondaryResults, 'analysis'>> }) {
  return (
    <>
      <h2>Secondary metrics</h2>
      <p class='hint'>Exploratory metrics are not corrected for each other: one in twenty without any effect shows a difference by chance.</p>
      <Show of={of} what='Secondary metrics'>
        {({ analysis }) => (
          <>
            {analysis.map((result, index) => (
              <section key={index} aria-label={showText(nameOfMetric(result.metric), 100)}>
                <h3>{showText(nameOfMetric(result.metric), 100)} ({result.role === 'secondary' ? 'exploratory' : result.role})</h3>
                <MetricPicture result={result} />
              </section>
            ))}
          </>
        )}
      </Show>
    </>
  )
}
