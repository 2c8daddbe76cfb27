/** Fields for metrics of all kinds, by the tables below; what they do not show stays as it is. */
import { useRef, useState } from 'preact/hooks'
import { fieldsOf } from '../../../engines/fields.ts'
import { request } from '../api-client.ts'
import { FormDialog } from '../confirm.tsx'
import { outdated } from '../frame/change-stored.ts'
import { Parts } from '../frame/parts.tsx'
import { showText } from '../format.ts'
import { EventField, NameLists, type Names, PropertyField, useNames } from '../questions/event-fields.tsx'
import { EMPTY_EVENT, type EventChoice } from '../questions/question-definition.ts'
import { NumberField, Select } from '../states.tsx'
import { describeMetric, listSecondaryMetrics, type MetricKind } from './describe-metric.ts'
import type { Experiment } from './describe-experiment.ts'

const KINDS: Record<MetricKind, string> = {
  funnel: 'share of persons who do it', count: 'events a person', sum: 'sum of a property a person', mean: 'average of a property',
  ratio: 'one sum over all persons by another', retention: 'share of persons who come back'
}

const ROLES = [['secondary', 'explore'], ['primary', 'decide, corrected together with the primary metric'], ['guardrail', 'guard against a loss']] as const

/** Fields with an event each; other kinds are of one event. */
const EVENTS: Partial<Record<MetricKind, Record<string, string>>> = {
  ratio: { numerator: 'Sum of', denominator: 'By the sum of' },
  retention: { start_event: 'Starts with', completion_event: 'Comes back with' }
}

const VALUES = ['count', 'sum', 'mean']

/** Fields that choose; without the field, the first one. */
const CHOICES: Record<string, { label: string, of?: readonly string[], options: readonly (readonly [value: string | number, text: string])[] }> = {
  upper_bound_percentile: { label: 'Outliers', of: VALUES, options: [['', 'stay'], [0.99, 'cut to the 99th percentile'], [0.95, 'cut to the 95th percentile']] },
  lower_bound_percentile: { label: 'Lowest values', of: VALUES, options: [['', 'stay'], [0.01, 'cut to the 1st percentile'], [0.05, 'cut to the 5th percentile']] },
  quantile: { label: 'Compare', of: VALUES, options: [['', 'the averages over persons'], [0.5, 'the medians'], [0.9, 'the 90th percentiles']] },
  retention_window_unit: { label: 'Counted in', of: ['retention'], options: [['', 'days'], ['hour', 'hours'], ['week', 'weeks'], ['month', 'months']] },
  start_handling: { label: 'Starts at', of: ['retention'], options: [['', 'the first of these events'], ['last_seen', 'the last one']] },
  goal: { label: 'Better is', options: [['', 'more'], ['decrease', 'less']] }
}

/** Fields with a number; `blank` is shown without one. */
const NUMBERS: Record<string, { label: string, of?: readonly string[], blank: string }> = {
  retention_window_start: { label: 'From', of: ['retention'], blank: '1' },
  retention_window_end: { label: 'To', of: ['retention'], blank: '7' },
  window_days: { label: 'Days after the exposure that count', blank: 'all' }
}

const isKind = (kind: unknown): kind is MetricKind => typeof kind === 'string' && Object.hasOwn(KINDS, kind)
const hasProperty = (kind: MetricKind): boolean => kind === 'sum' || kind === 'mean'
const of = <T extends { of?: readonly string[] }>(table: Record<string, T>, kind: MetricKind): [string, T][] =>
  Object.entries(table).filter(([, { of = [kind] }]) => of.includes(kind))
const eventOf = (value: unknown): EventChoice => ({ ...EMPTY_EVENT, ...fieldsOf(value) })

type Metric = Readonly<Record<string, unknown>> & { kind: MetricKind }

export const EMPTY_METRIC: Metric = { kind: 'funnel', ...EMPTY_EVENT }

function fieldsOfKind (kind: MetricKind): string[] {
  return [
    'kind', 'name', 'role', 'margin', ...Object.keys(EVENTS[kind] ?? EMPTY_EVENT), ...hasProperty(kind) ? ['property'] : [],
    ...[...of(CHOICES, kind), ...of(NUMBERS, kind)].map(([field]) => field)
  ]
}

/** @returns undefined for a metric that the fields below do not show as a whole. */
function readMetric (entry: unknown): Metric | undefined {
  const { kind, ...rest } = fieldsOf(entry)
  if (!isKind(kind) || !Object.keys(rest).every((field) => fieldsOfKind(kind).includes(field))) return undefined
  return EVENTS[kind] === undefined && typeof rest['event'] !== 'string' ? undefined : { ...rest, kind }
}

export function MetricFields ({ metric, names, onChange }: { metric: Metric, names: Names, onChange: (metric: Metric) => void }) {
  const { kind } = metric
  const set = (field: string, value: unknown): void => {
    const { [field]: _, ...rest } = metric
    onChange(value === '' ? { ...rest, kind } : { ...rest, kind, [field]: value })
  }
  const choose = (next: string): void => {
    if (!isKind(next)) return
    const kept = Object.entries(metric).filter(([field]) => fieldsOfKind(next).includes(field))
    const events = EVENTS[next] === undefined ? EMPTY_EVENT : Object.fromEntries(Object.keys(EVENTS[next]).map((field) => [field, EMPTY_EVENT]))
    onChange({ ...events, ...hasProperty(next) && { property: '' }, ...Object.fromEntries(kept), kind: next })
  }
  return (
    <>
      <Select label='Measure' value={kind} options={Object.entries(KINDS)} onChange={choose} />
      {EVENTS[kind] === undefined && <EventField label='Event' mayBeAny={false} value={eventOf(metric)} names={names} onChange={(event) => onChange({ ...metric, ...event })} />}
      {Object.entries(EVENTS[kind] ?? {}).map(([field, label]) => (
        <EventField key={field} label={label} mayBeAny={false} value={eventOf(metric[field])} names={names} onChange={(event) => set(field, event)} />
      ))}
      {kind === 'ratio' && Object.keys(EVENTS.ratio ?? {}).map((field) => (
        <label key={field}>Property with the number of the {field}; empty: events are counted <input
          list='property-names' value={String(fieldsOf(metric[field])['property'] ?? '')}
          onInput={({ currentTarget: { value } }) => set(field, { ...eventOf(metric[field]), property: value === '' ? undefined : value })}
                                                                                              />
        </label>
      ))}
      {hasProperty(kind) && <PropertyField label='Property with the number' value={String(metric['property'] ?? '')} names={names} onChange={(next) => onChange({ ...metric, property: next })} />}
      {of(NUMBERS, kind).map(([field, { label, blank }]) => (
        <label key={field}>{label} <input
          type='number' min='0' step='any' placeholder={blank} value={String(metric[field] ?? '')}
          onInput={({ currentTarget: { value } }) => set(field, value === '' ? '' : Number(value))}
                                   />
        </label>
      ))}
      {of(CHOICES, kind).map(([field, { label, options }]) => (
        <Select
          key={field} label={label} value={String(metric[field] ?? '')} options={options}
          onChange={(next) => set(field, options.find(([value]) => String(value) === next)?.[0])}
        />
      ))}
    </>
  )
}

/** Adds, changes and removes the secondary metrics of an experiment. */
export function SecondaryDialog ({ experiment, path, onClose, onDone }: { experiment: Experiment, path: string, onClose: () => void, onDone: () => void }) {
  const [metrics, setMetrics] = useState<unknown[]>(() => listSecondaryMetrics(experiment.secondary_metrics))
  const base = useRef(JSON.stringify(experiment.secondary_metrics))
  const names = useNames('events', 'properties')
  const save = async () => {
    const stored = JSON.stringify((await request<Experiment>(path)).secondary_metrics)
    const isOutdated = stored !== base.current
    base.current = stored
    if (isOutdated) throw outdated('secondary_metrics')
    return await request(path, { method: 'PATCH', body: { secondary_metrics: metrics } })
  }
  return (
    <FormDialog title='Secondary metrics' action='Save' onConfirm={save} onDone={onDone} onClose={onClose} isWide>
      <NameLists names={names} />
      <Parts of={metrics} most={20} what='metric' blank={EMPTY_METRIC} onChange={setMetrics}>
        {(each, _, set) => {
          const metric = readMetric(each)
          if (metric === undefined) return <p>{showText(describeMetric(fieldsOf(each)), 300)}</p>
          return (
            <>
              <label>Name, if it has one <input value={String(metric['name'] ?? '')} maxLength={200} onInput={(event) => set({ ...metric, name: event.currentTarget.value })} /></label>
              <MetricFields metric={metric} names={names} onChange={set} />
              <Select
                label='Used to' value={String(metric['role'] ?? 'secondary')} options={ROLES} onChange={(role) => {
                  const { role: _, margin: __, ...rest } = metric
                  set(role === 'secondary' ? rest : { ...rest, role, ...role === 'guardrail' && { margin: 2 } })
                }}
              />
              {metric['role'] === 'guardrail' && (
                <NumberField label='Tolerated loss, in percent' least={0.1} most={100} value={Number(metric['margin'])} onChange={(margin) => set({ ...metric, margin })} />
              )}
            </>
          )
        }}
      </Parts>
    </FormDialog>
  )
}
