import { useState } from 'preact/hooks'
import { formatShare, shareOf, showText } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { Chart } from '../sql/result-chart.tsx'
import { Select } from '../states.tsx'
import { type Open, PeopleNumber } from './persons-behind.tsx'
import { formatDuration, type FunnelAnswer } from './question-definition.ts'

/** How long people took from the first step to another one. */
export function FunnelTimes ({ answer: { parts: [all] }, open }: { answer: FunnelAnswer, open: Open }) {
  const steps = all?.steps ?? []
  const [wanted, setChosen] = useState(Infinity)
  const chosen = Math.min(wanted, steps.length)
  const { people = null, times = [], median_ms: median = null, p90_ms: p90 = null } = steps[chosen - 1] ?? {}
  const shown = times.slice(0, times.findLastIndex((each) => each.people > 0) + 1)
  const nameOf = ({ from_ms: from, to_ms: to }: typeof times[number]): string => `${from === 0 ? '0' : formatDuration(from)} to ${formatDuration(to)}`
  if (steps[1]?.people == null || steps[1].people === 0) return null
  return (
    <section aria-label='Time to convert'>
      <h3>Time to convert</h3>
      <div class='toolbar'>
        <Select label='From step 1 to' value={chosen} options={steps.slice(1).map(({ name }, index): [number, string] => [index + 2, `${index + 2}. ${showText(name, 60)}`])} onChange={(step) => setChosen(Number(step))} />
        <span class='hint'>{people === null || people === 0 ? 'Nobody reached it.' : `Half of them took at most ${formatDuration(median)}, 90 % at most ${formatDuration(p90)}.`}</span>
      </div>
      {shown.length > 0 && (
        <>
          <Chart
            columns={[{ name: 'time', type: 'String' }, { name: 'people', type: 'Float64' }]}
            rows={shown.map((each) => [nameOf(each), each.people])} along='time' chosen={{ kind: 'bar', x: 0, y: [1] }}
          />
          <Rows
            label='Times' class='dense' of={shown} columns={[
              ['Time', nameOf],
              ['#People', (each) => <PeopleNumber of={each.people} title={`Step ${chosen} after ${nameOf(each)}`} cell={{ step: chosen, from_ms: each.from_ms }} open={open} />],
              ['#Share', (each) => formatShare(shareOf(each.people, people))]
            ]}
          />
        </>
      )}
    </section>
  )
}
