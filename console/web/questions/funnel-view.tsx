import { lostBefore } from '../../../engines/charts/drawn-parts.ts'
import { formatCount, formatCounted, formatShare, formatterOf, shareOf, showText } from '../format.ts'
import { Empty, Numbers, Table } from '../states.tsx'
import { FunnelBars } from './funnel-bars.tsx'
import { PeopleNumber, type ViewProps } from './persons-behind.tsx'
import { describeEvent, EMPTY_EVENT, formatDuration, type FunnelAnswer, partName } from './question-definition.ts'

type FunnelPart = FunnelAnswer['parts'][number]

export function FunnelView ({ answered: { to, timezone }, answer, definition, isFolded, open }: ViewProps<FunnelAnswer>) {
  const [all, ...parts] = answer.parts
  if (all === undefined || definition.kind !== 'funnel') return null
  const { window: limit } = definition
  // Only events of the range count, so that nobody has time left after it.
  const hasTime = to >= formatterOf(timezone).format(Date.now()).slice(0, 10)
  const place = ({ part, value, steps }: FunnelPart, step: number, outcome: 'reached' | 'lost') => ({
    people: outcome === 'reached' ? steps[step - 1]?.people ?? null : lostBefore(steps, step),
    title: `${outcome === 'reached' ? 'Reached' : 'Did not reach'} step ${step}${part === 'all' ? '' : `: ${partName({ part, value })}`}`,
    cell: { part, value, step, outcome }
  })
  if (all.steps[0]?.people === 0) {
    return <Empty>Nobody did the first step in the range: {showText(describeEvent(definition.steps[0] ?? EMPTY_EVENT), 300)}.</Empty>
  }
  return (
    <>
      <FunnelBars steps={all.steps} onOpen={open && ((step, outcome) => open(place(all, step, outcome)))} />
      <Numbers isFolded={isFolded}>
        <Table label='Steps' class='dense' head={['Step', '#People', '#Of the first', '#Of the one before', '#Median time', open !== undefined && '-Who dropped out']}>
          {all.steps.map(({ name, people, conversion, median_ms: median }, index) => {
            const lost = lostBefore(all.steps, index + 1)
            return (
              <tr key={index}>
                <td class='value'>{index + 1}.{'\u00a0'}{showText(name, 60)}</td>
                <td class='number'><PeopleNumber of={people} {...place(all, index + 1, 'reached')} open={open} /></td>
                <td class='number' style={{ '--share': formatShare(conversion).replace(' ', '') }}>{formatShare(conversion)}</td>
                <td class='number'>{formatShare(shareOf(people, all.steps[index - 1]?.people))}</td>
                <td class='number'>{index === 0 ? '–' : formatDuration(median)}</td>
                {open !== undefined && <td>{lost > 0 && <button type='button' class='lost' onClick={() => open(place(all, index + 1, 'lost'))}>{formatCount(lost)} dropped out<span class='hidden'> before step {index + 1}</span></button>}</td>}
              </tr>
            )
          })}
        </Table>
      </Numbers>
      {hasTime && <p class='hint'>People who entered in the last {formatCounted(limit.value, limit.unit)} still have time for the remaining steps, and count as dropped out.</p>}
      {parts.length > 0 && (
        <Table label='By value' class='dense' head={['Value', '#Entered', ...all.steps.slice(1).map(({ name }, index) => `#${index + 2}. ${showText(name, 30)}`), '#Median time']}>
          {parts.map((part) => (
            <tr key={`${part.part} ${part.value}`}>
              <td>{showText(partName(part), 60)}</td>
              <td class='number'><PeopleNumber of={part.steps[0]?.people} {...place(part, 1, 'reached')} open={open} /></td>
              {part.steps.slice(1).map(({ people, conversion }, index) => {
                const lost = lostBefore(part.steps, index + 2)
                return (
                  <td key={index} class='number' style={{ '--share': formatShare(conversion).replace(' ', '') }}>
                    {formatShare(conversion)}<small> <PeopleNumber of={people} {...place(part, index + 2, 'reached')} open={open} /></small>
                    {open !== undefined && lost > 0 && <button type='button' class='quiet lost' title='dropped out' onClick={() => open(place(part, index + 2, 'lost'))}>−{formatCount(lost)}<span class='hidden'> dropped out before step {index + 2}: {partName(part)}</span></button>}
                  </td>
                )
              })}
              <td class='number'>{formatDuration(part.steps.at(-1)?.median_ms ?? null)}</td>
            </tr>
          ))}
        </Table>
      )}
    </>
  )
}
