import { useState } from 'preact/hooks'
import { ApiError, request } from '../api-client.ts'
import { linkTo, navigate, projectId } from '../router.ts'
import { Failed } from '../states.tsx'
import type { Experiment } from './experiment.ts'

const KINDS: Record<string, string> = {
  funnel: 'share of persons who do it', count: 'events a person', sum: 'sum of a property a person', mean: 'average of a property'
}

/** A draft: the flag is made with it, or an existing one is linked. */
export function NewExperiment () {
  const [fields, setFields] = useState({ name: '', flag: '', kind: 'funnel', event: '', property: '', effect: '5' })
  const [error, setError] = useState<ApiError>()
  const set = (name: keyof typeof fields) => (event: { currentTarget: { value: string } }): void => {
    const { value } = event.currentTarget
    setFields((before) => ({ ...before, [name]: value }))
  }
  const needsProperty = fields.kind === 'sum' || fields.kind === 'mean'

  async function create (): Promise<void> {
    const { name, flag, kind, event, property, effect } = fields
    const metric = kind === 'funnel' ? { kind, steps: [event] } : { kind, event, ...(needsProperty ? { property } : {}) }
    try {
      const experiment = await request<Experiment>(`/api/projects/${projectId.value}/experiments/`, {
        method: 'POST',
        body: { name, feature_flag_key: flag, filters: { metric }, parameters: { minimum_detectable_effect: Number(effect) } }
      })
      navigate(`/projects/${projectId.value}/experiments/${experiment.id}`)
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, 'console_error', String(cause)))
    }
  }

  return (
    <section>
      <p><a {...linkTo(`/projects/${projectId.value}/experiments`)}>Experiments</a></p>
      <h1>New experiment</h1>
      <form
        class='stacked' onSubmit={(event) => {
          event.preventDefault()
          void create()
        }}
      >
        <label>Name <input required value={fields.name} onInput={set('name')} /></label>
        <label>Key of the flag; an unknown one makes a flag with the variants control and test, half each <input required value={fields.flag} onInput={set('flag')} /></label>
        <label>
          Measure{' '}
          <select value={fields.kind} onChange={set('kind')}>
            {Object.entries(KINDS).map(([kind, words]) => <option key={kind} value={kind}>{words}</option>)}
          </select>
        </label>
        <label>Event <input required value={fields.event} onInput={set('event')} /></label>
        {needsProperty && <label>Property with the number <input required value={fields.property} onInput={set('property')} /></label>}
        <label>Smallest change worth seeing, in percent <input type='number' required min='0.1' step='any' value={fields.effect} onInput={set('effect')} /></label>
        {error !== undefined && <Failed error={error} onRetry={() => { void create() }} />}
        <p class='actions'><button type='submit' class='primary'>Create a draft</button></p>
      </form>
    </section>
  )
}
