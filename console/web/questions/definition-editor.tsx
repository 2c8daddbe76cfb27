import { useState } from 'preact/hooks'
import { daysOf, periodOf } from '../../../engines/questions/calendar.ts'
import { cohortNames } from '../flags/flag-filters.ts'
import { formatterOf, showText } from '../format.ts'
import { Parts } from '../frame/parts.tsx'
import { projectId } from '../router.ts'
import { currentSession } from '../session.ts'
import { Checkbox, NumberField, Select } from '../states.tsx'
import { EventField, type Names, PropertyField } from './event-fields.tsx'
import { type Definition, describeUnits, EMPTY_EVENT, type Funnel, MEASURES, needsProperty, type Paths, type Range, RANGES, type Retention, type SeriesChoice, type Trend, trimSeries } from './question-definition.ts'

const MAX_SERIES = 5
const MAX_STEPS = 10
const MAX_EXCLUDED = 5
const MAX_NODES = 50
const UNITS = [['minute', 'minutes'], ['hour', 'hours'], ['day', 'days']] as const
const ORDERS = [['people', 'most people first'], ['worst', 'worst conversion first'], ['best', 'best conversion first']] as const
const ATTRIBUTIONS = [['first', 'their first value'], ['any', 'each of their values']] as const
const LONGER = [['day', 'day'], ['week', 'week'], ['month', 'month']] as const

interface EditorProps<D> { definition: D, names: Names, onChange: (definition: D) => void }

export function DefinitionEditor ({ definition, names, onChange }: EditorProps<Definition>) {
  const edit = (changes: object): void => onChange({ ...definition, ...changes } as Definition)
  return (
    <>
      {definition.kind === 'trend' && <TrendFields definition={definition} names={names} onChange={onChange} />}
      {definition.kind === 'funnel' && <FunnelFields definition={definition} names={names} onChange={onChange} />}
      {definition.kind === 'paths' && <PathsFields definition={definition} names={names} onChange={onChange} />}
      {definition.kind === 'retention' && <RetentionFields definition={definition} names={names} onChange={onChange} />}
      {'activity' in definition && <EventField withPersons label='Active by' value={definition.activity} names={names} onChange={(activity) => edit({ activity })} />}
      <div class='toolbar'>
        <RangeFields definition={definition} onChange={(range) => edit({ range })} />
        {'interval' in definition && (
          <Select
            label='By' value={definition.interval} options={definition.kind === 'trend' ? [['hour', 'hour'], ...LONGER] : LONGER}
            onChange={(interval) => edit({ interval })}
          />
        )}
        {'interval' in definition && definition.interval === 'week' && (
          <Select
            label='Weeks start' value={definition.week_starts ?? ''} options={[['', 'as in the project'], ['monday', 'on Monday'], ['sunday', 'on Sunday']]}
            onChange={(day) => edit({ week_starts: day === '' ? null : day })}
          />
        )}
        {definition.kind === 'trend' && <Checkbox label='Compare with the previous period' isOn={definition.compare} onChange={(compare) => edit({ compare })} />}
        {definition.kind === 'trend' && <label>Formula <input size={12} placeholder='A / B' value={definition.formula ?? ''} onInput={({ currentTarget: { value } }) => edit({ formula: value.trim() === '' ? null : value })} /></label>}
        <Checkbox label='Include bots' isOn={definition.include_bots} onChange={(bots) => edit({ include_bots: bots })} />
      </div>
      {'breakdown' in definition && <BreakdownFields definition={definition} names={names} onChange={onChange} />}
    </>
  )
}

/** A range that has a name, another relative to today, or one between two days. */
function RangeFields ({ definition, onChange }: { definition: Definition, onChange: (range: Range) => void }) {
  const { range } = definition
  const { unit = 'day' } = range
  // A partly typed name may be another valid name.
  const [isTyped, setTyped] = useState(false)
  const type = (changes: Range): void => {
    setTyped(true)
    onChange({ ...range, ...changes })
  }
  const isFixed = range.from !== undefined
  const today = (): string => formatterOf(shownCalendar().timezone).format(Date.now()).slice(0, 10)
  const units = describeUnits(range)
  const isNamed = !isTyped && RANGES.some(([each]) => each === units)
  return (
    <>
      <Select
        label='Range' value={isFixed ? 'days' : isNamed ? units : 'last'} options={[...RANGES, ['last', 'the last'], ['days', 'from day to day']]}
        onChange={(value) => {
          setTyped(value === 'last')
          onChange(value === 'days' ? { from: today(), to: today() } : value === 'last' ? { last: 30, unit: 'day' } : { last: 1, unit: value.replace(/^1 (?:whole )?/, ''), whole: value.includes('whole') })
        }}
      />
      {isFixed
        ? (
          <>
            <label>from <input type='date' required value={range.from} onInput={(event) => onChange({ ...range, from: event.currentTarget.value })} /></label>
            <label>to <input type='date' required value={range.to} onInput={(event) => onChange({ ...range, to: event.currentTarget.value })} /></label>
          </>
          )
        : !isNamed && (
          <>
            <NumberField step={1} least={1} label='-number' value={range.last ?? 30} most={1000} onChange={(last) => type({ last })} />
            <Select label='-of' value={unit} options={[['day', 'days'], ['week', 'weeks'], ['month', 'months']]} onChange={(next) => type({ unit: next })} />
            <Checkbox label={`without ${unit === 'day' ? 'today' : `this ${unit}`}`} isOn={range.whole ?? false} onChange={(whole) => type({ whole })} />
          </>
          )}
      {!isFixed && <span class='hint numbers'>{describeDays(definition)}</span>}
    </>
  )
}

function shownCalendar (): { timezone: string, week_starts: string } {
  return currentSession().projects.find(({ id }) => id === projectId.value) ?? { timezone: 'UTC', week_starts: 'monday' }
}

/** `2026-03-02 to 2026-03-08`: which days a relative range has now, by the calendar of the project. */
function describeDays (definition: Definition): string {
  const { last = 30, unit = 'day', whole = false } = definition.range
  const { timezone, week_starts: ofProject } = shownCalendar()
  // Browsers without Temporal say the days with the answer only.
  if (!(last >= 1 && last <= 1000) || !('Temporal' in globalThis)) return ''
  const weekStarts = (definition.week_starts ?? ofProject) === 'sunday' ? 'sunday' : 'monday'
  const [first, end] = daysOf({ last, unit: unit as 'day', whole }, { timezone, weekStarts, now: Date.now() })
  return `${definition.kind === 'trend' || !('interval' in definition) ? first : periodOf(first, definition.interval as 'day', weekStarts)} to ${end}`
}

function BreakdownFields ({ definition, names, onChange }: EditorProps<Trend | Funnel>) {
  const { breakdown } = definition
  const edit = (next: Trend['breakdown']): void => onChange({ ...definition, breakdown: next })
  return (
    <div class='toolbar'>
      <Checkbox label='Broken down by a property' isOn={breakdown !== null} onChange={(isOn) => edit(isOn ? { property: '', limit: 10 } : null)} />
      {breakdown !== null && (
        <Select
          label='-Whose' value={breakdown.type ?? 'event'} options={[['event', 'of the event'], ['person', 'of the person'], ['cohort', 'cohorts']]}
          onChange={(type) => edit(type === 'cohort' ? { type, cohorts: [] } : { property: '', limit: 10, ...breakdown.type !== 'cohort' && breakdown, type })}
        />
      )}
      {breakdown?.type === 'cohort' && <CohortChoice value={breakdown.cohorts ?? []} onChange={(cohorts) => edit({ ...breakdown, cohorts })} />}
      {breakdown !== null && breakdown.type !== 'cohort' && (
        <>
          <PropertyField label='Property' value={breakdown.property ?? ''} names={names} isOfPerson={breakdown.type === 'person'} onChange={(property) => edit({ ...breakdown, property })} />
          <NumberField step={1} least={1} label='Top values' value={breakdown.limit ?? 10} most={25} onChange={(limit) => edit({ ...breakdown, limit })} />
          {definition.kind === 'funnel' && (
            <>
              <Select label='People count in' value={breakdown.attribution ?? 'first'} options={ATTRIBUTIONS} onChange={(attribution) => edit({ ...breakdown, attribution })} />
              <Select label='Order' value={breakdown.order ?? 'people'} options={ORDERS} onChange={(order) => edit({ ...breakdown, order })} />
            </>
          )}
        </>
      )}
    </div>
  )
}

function CohortChoice ({ value, onChange }: { value: readonly number[], onChange: (value: number[]) => void }) {
  const names = [...cohortNames.value]
  if (names.length === 0) return <span class='hint'>The project has no cohorts.</span>
  return (
    <select multiple required aria-label='Cohorts' size={Math.min(6, names.length)} onChange={({ currentTarget: { selectedOptions } }) => onChange([...selectedOptions].map((option) => Number(option.value)))}>
      {names.map(([id, name]) => <option key={id} value={id} selected={value.includes(Number(id))}>{showText(name, 60)}</option>)}
    </select>
  )
}

function TrendFields ({ definition, names, onChange }: EditorProps<Trend>) {
  const { series } = definition
  return (
    <Parts
      of={series} most={MAX_SERIES} least={1} what='series' blank={{ ...EMPTY_EVENT, measure: 'events' }}
      onChange={(next) => onChange({ ...definition, series: next })}
    >
      {(each, index, change) => {
        const set = (changes: Partial<SeriesChoice>): void => change({ ...each, ...changes })
        return (
          <>
            <div class='toolbar'>
              <Select label='Count' value={each.measure} options={Object.entries(MEASURES)} onChange={(measure) => change(trimSeries({ ...each, measure }))} />
              {each.measure === 'groups'
                ? <label>group type <input required value={each.property ?? ''} onInput={(event) => set({ property: event.currentTarget.value })} /></label>
                : needsProperty(each.measure) && <PropertyField label='property' value={each.property ?? ''} names={names} onChange={(property) => set({ property })} />}
            </div>
            <EventField withPersons label={`Event ${index + 1}`} value={each} names={names} onChange={set} />
          </>
        )
      }}
    </Parts>
  )
}

function FunnelFields ({ definition, names, onChange }: EditorProps<Funnel>) {
  const { steps, exclude, window: limit, order } = definition
  const edit = (changes: Partial<Funnel>): void => onChange({ ...definition, ...changes })
  return (
    <>
      <Parts of={steps} most={MAX_STEPS} least={2} what='step' blank={EMPTY_EVENT} onChange={(next) => edit({ steps: next })}>
        {(step, index, set) => (
          <EventField withPersons label={`Step ${index + 1}`} value={step} names={names} mayBeAny={order === 'in_order'} onChange={set} />
        )}
      </Parts>
      {order === 'in_order' && (
        <Parts of={exclude} most={MAX_EXCLUDED} what='step that must not happen' blank={{ ...EMPTY_EVENT, from: 1, to: steps.length }} onChange={(next) => edit({ exclude: next })}>
          {(each, index, set) => (
            <>
              <EventField withPersons label={`Must not happen ${index + 1}`} value={each} names={names} onChange={(choice) => set({ ...each, ...choice })} />
              <div class='toolbar'>
                <NumberField step={1} least={1} label='After step' value={each.from} most={steps.length - 1} onChange={(from) => set({ ...each, from })} />
                <NumberField step={1} least={1} label='before step' value={each.to} most={steps.length} onChange={(to) => set({ ...each, to })} />
              </div>
            </>
          )}
        </Parts>
      )}
      <div class='toolbar'>
        <NumberField step={1} least={1} label='Within' value={limit.value} most={525_600} onChange={(value) => edit({ window: { ...limit, value } })} />
        <Select label='-unit' value={limit.unit} options={UNITS} onChange={(unit) => edit({ window: { ...limit, unit } })} />
        <Select label='Steps' value={order} options={[['in_order', 'in this order'], ['any_order', 'in any order']]} onChange={(next) => edit({ order: next, ...next === 'any_order' && { exclude: [] } })} />
      </div>
    </>
  )
}

function RetentionFields ({ definition, names, onChange }: EditorProps<Retention>) {
  return (
    <>
      <Select
        label='Who counts' value={definition.cohort} options={[['first', 'people who did it for the first time ever'], ['any', 'everyone who did it in a period']]}
        onChange={(cohort) => onChange({ ...definition, cohort })}
      />
      <EventField withPersons label={definition.cohort === 'any' ? 'Did' : 'First did'} value={definition.start} names={names} onChange={(start) => onChange({ ...definition, start })} />
      <Select
        label='Counts as returned' value={definition.returns ?? 'on'} options={[['on', 'in that period'], ['on_or_after', 'in that period or later']]}
        onChange={(returns) => onChange({ ...definition, returns })}
      />
      <EventField withPersons label='Came back for' value={definition.returning} names={names} onChange={(returning) => onChange({ ...definition, returning })} />
    </>
  )
}

function PathsFields ({ definition, names, onChange }: EditorProps<Paths>) {
  const { from, to, events, gap } = definition
  const edit = (changes: Partial<Paths>): void => onChange({ ...definition, ...changes })
  const anchor = from ?? to ?? EMPTY_EVENT
  const lead = (direction: string, choice: typeof anchor): void => edit(direction === 'from' ? { from: choice, to: null } : { from: null, to: choice })
  const direction = from === null ? 'to' : 'from'
  return (
    <>
      <Select label='Paths' value={direction} options={[['from', 'from an event on'], ['to', 'that lead to an event']]} onChange={(next) => lead(next, anchor)} />
      <EventField withPersons label={from === null ? 'To' : 'From'} value={anchor} names={names} onChange={(choice) => lead(direction, choice)} />
      <Checkbox label='Only some events' isOn={events !== null} onChange={(isOn) => edit({ events: isOn ? [''] : null })} />
      {events !== null && (
        <Parts of={events} most={MAX_NODES} least={1} what='name' blank='' onChange={(next) => edit({ events: next })}>
          {(name, index, set) => <label>Event {index + 1} <input list='event-names' required value={name} onInput={({ currentTarget: { value } }) => set(value)} /></label>}
        </Parts>
      )}
      <div class='toolbar'>
        <NumberField step={1} least={1} label='Steps' value={definition.steps} most={MAX_STEPS} onChange={(steps) => edit({ steps })} />
        {events === null && <NumberField step={1} least={1} label='Names shown' value={definition.nodes} most={MAX_NODES} onChange={(nodes) => edit({ nodes })} />}
        <NumberField step={1} least={1} label='People at least' value={definition.min_people} most={1_000_000} onChange={(people) => edit({ min_people: people })} />
        <NumberField step={1} least={1} label='A path ends after' value={gap.value} most={525_600} onChange={(value) => edit({ gap: { ...gap, value } })} />
        <Select label='-unit' value={gap.unit} options={UNITS} onChange={(unit) => edit({ gap: { ...gap, unit } })} />
        <span class='hint'>without an event</span>
      </div>
    </>
  )
}
