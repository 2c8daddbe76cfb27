/** Fields for metrics with one event, the form that most metrics have; others are shown and stay as they are. */
import { useState } from 'preact/hooks'
import { fieldsOf } from '../../../engines/fields.ts'
import { request } from '../api-client.ts'
import { FormDialog } from '../confirm.tsx'
import { Parts } from '../frame/parts.tsx'
import { showText } from '../format.ts'
import { EventField, NameLists, type Names, PropertyField, useNames } from '../questions/event-fields.tsx'
import { EMPTY_EVENT, type EventChoice } from '../questions/question-definition.ts'
import { Select } from '../states.tsx'
import { describeMetric, listSecondaryMetrics, type MetricKind } from './describe-metric.ts'
import type { Experiment } from './describe-experiment.ts'

const KINDS: Partial<Record<MetricKind, string>> = {
  funnel: 'share of persons who do it', count: 'events a person', sum: 'sum of a property a person', mean: 'average of a property'
}

const ROLES = [['secondary', 'explore'], ['primary', 'decide, corrected together with the primary metric'], ['guardrail', 'guard against a loss']] as const

const isKind = (kind: unknown): kind is MetricKind => typeof kind === 'string' && Object.hasOwn(KINDS, kind)

export interface OneEventMetric extends EventChoice {
  kind: MetricKind
  name?: string
  property?: string
  upper_bound_percentile?: number
  role?: string
  margin?: number
}

export const EMPTY_METRIC: OneEventMetric = { kind: 'funnel', ...EMPTY_EVENT }

/** @returns undefined for a metric that the fields below do not show as a whole. */
function readMetric (entry: unknown): OneEventMetric | undefined {
  const { kind, event, where, name, property, upper_bound_percentile: bound, role, margin, ...rest } = fieldsOf(entry)
  if (!isKind(kind) || typeof event !== 'string' || Object.keys(rest).length > 0) return undefined
  const texts = {
    ...typeof name === 'string' && { name }, ...typeof property === 'string' && { property }, ...typeof role === 'string' && { role },
    ...typeof bound === 'number' && { upper_bound_percentile: bound }, ...typeof margin === 'number' && { margin }
  }
  return { kind, event, where: Array.isArray(where) ? where : [], ...texts }
}

export function MetricFields ({ metric, names, onChange }: { metric: OneEventMetric, names: Names, onChange: (metric: OneEventMetric) => void }) {
  const { kind, property = '' } = metric
  const choose = (next: string): void => {
    const { property: _, upper_bound_percentile: bound, ...rest } = metric
    if (isKind(next)) onChange({ ...rest, kind: next, ...(next === 'sum' || next === 'mean') && { property }, ...next !== 'funnel' && bound !== undefined && { upper_bound_percentile: bound } })
  }
  return (
    <>
      <Select label='Measure' value={kind} options={Object.entries(KINDS)} onChange={choose} />
      <EventField label='Event' mayBeAny={false} value={metric} names={names} onChange={(event) => onChange({ ...metric, ...event })} />
      {(kind === 'sum' || kind === 'mean') && <PropertyField label='Property with the number' value={property} names={names} onChange={(next) => onChange({ ...metric, property: next })} />}
      {kind !== 'funnel' && (
        <Select
          label='Outliers' value={metric.upper_bound_percentile ?? 1} options={[[1, 'stay'], [0.99, 'cut to the 99th percentile'], [0.95, 'cut to the 95th percentile']]}
          onChange={(next) => {
            const { upper_bound_percentile: _, ...rest } = metric
            onChange(Number(next) === 1 ? rest : { ...rest, upper_bound_percentile: Number(next) })
          }}
        />
      )}
    </>
  )
}

/** Adds, changes and removes the secondary metrics of an experiment. */
export function SecondaryDialog ({ experiment, path, onClose, onDone }: { experiment: Experiment, path: string, onClose: () => void, onDone: () => void }) {
  const [metrics, setMetrics] = useState<unknown[]>(() => listSecondaryMetrics(experiment.secondary_metrics))
  const names = useNames('events', 'properties')
  const save = async () => await request(path, { method: 'PATCH', body: { secondary_metrics: metrics } })
  return (
    <FormDialog title='Secondary metrics' action='Save' onConfirm={save} onDone={onDone} onClose={onClose} isWide>
      <NameLists names={names} />
      <Parts of={metrics} most={20} what='metric' blank={EMPTY_METRIC} onChange={setMetrics}>
        {(each, _, set) => {
          const metric = readMetric(each)
          if (metric === undefined) return <p>{showText(describeMetric(fieldsOf(each)), 300)}</p>
          return (
            <>
              <label>Name, if it has one <input value={metric.name ?? ''} maxLength={200} onInput={(event) => set({ ...metric, name: event.currentTarget.value })} /></label>
              <MetricFields metric={metric} names={names} onChange={set} />
              <Select
                label='Used to' value={metric.role ?? 'secondary'} options={ROLES} onChange={(role) => {
                  const { role: _, margin: __, ...rest } = metric
                  set(role === 'secondary' ? rest : { ...rest, role, ...role === 'guardrail' && { margin: 2 } })
                }}
              />
              {metric.role === 'guardrail' && (
                <label>Loss that is allowed, in percent <input type='number' required min='0.1' max='100' step='any' value={metric.margin} onInput={(event) => set({ ...metric, margin: Number(event.currentTarget.value) })} /></label>
              )}
            </>
          )
        }}
      </Parts>
    </FormDialog>
  )
}
