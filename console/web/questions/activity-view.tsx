/** Lifecycle and stickiness, as a picture and a table. */
import { formatCounted, formatShare, pointName, shareOf } from '../format.ts'
import { type Column, Rows } from '../frame/lists.tsx'
import { Chart } from '../sql/result-chart.tsx'
import { Numbers } from '../states.tsx'
import { AnnotationList, useAnnotations } from './annotations.tsx'
import { PeopleNumber, type ViewProps } from './persons-behind.tsx'
import type { LifecycleAnswer, StickinessAnswer } from './question-definition.ts'

export function LifecycleView ({ answered, answer: { points, states }, isFolded, open }: ViewProps<LifecycleAnswer>) {
  const { timezone } = answered
  const marks = useAnnotations(answered, points)
  const names = points.map(({ start }) => pointName(start, timezone))
  const partial = points.map(({ is_partial: isPartial }) => isPartial)
  const table = (
    <Rows
      label='Lifecycle' class='dense' of={points} columns={[
        ['From', ({ start, is_partial: isPartial }, at) => <><time dateTime={start}>{names[at]}</time><span class='hint'>{isPartial && ' partial'}</span></>],
        ...states.map(({ state, values }): Column<typeof points[number]> => [
          `#${state}`, ({ start }, at) => <PeopleNumber of={values[at]} title={`${state}, ${names[at]}`} cell={{ start, state }} open={open} />
        ])
      ]}
    />
  )
  return (
    <>
      <Chart
        columns={[{ name: 'from', type: 'String' }, ...states.map(({ state }) => ({ name: state, type: 'Float64' }))]}
        rows={points.map((_, at) => [names[at] ?? '', ...states.map(({ values }) => values[at] ?? null)])}
        along='time' marks={marks} looks={states.map((_, colour) => ({ colour, isBefore: false, partial }))} chosen={{ kind: 'line', x: 0, y: states.map((_, at) => at + 1) }}
      />
      <AnnotationList of={marks} mayChange={!isFolded} />
      <p class='hint'>New: active for the first time. Returning: also active in the period before. Resurrecting: active earlier, but not in the period before. Dormant: active in the period before only.</p>
      <Numbers isFolded={isFolded}>{table}</Numbers>
    </>
  )
}

export function StickinessView ({ answer: { counts }, definition, open }: ViewProps<StickinessAnswer>) {
  const unit = 'activity' in definition ? definition.interval : ''
  const everybody = counts.reduce<number | null>((sum, { people }) => people === null || sum === null ? null : sum + people, 0)
  return (
    <>
      <Chart
        columns={[{ name: 'active in', type: 'String' }, { name: 'people', type: 'Float64' }]}
        rows={counts.map(({ periods, people }) => [formatCounted(periods, unit), people])} along='periods' chosen={{ kind: 'bar', x: 0, y: [1] }}
      />
      <Rows
        label='Stickiness' class='dense' of={counts} columns={[
          ['Active in', ({ periods }) => formatCounted(periods, unit)],
          ['#People', ({ periods, people }) => <PeopleNumber of={people} title={`Active in ${formatCounted(periods, unit)}`} cell={{ periods }} open={open} />],
          ['#Share', ({ people }) => formatShare(shareOf(people, everybody))]
        ]}
      />
    </>
  )
}
