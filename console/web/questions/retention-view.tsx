import { formatShare, shareOf, showText } from '../format.ts'
import { Chart } from '../sql/result-chart.tsx'
import { Empty, Numbers, Table } from '../states.tsx'
import { PeopleNumber, type ViewProps } from './persons-behind.tsx'
import { describeEvent, meanReturn, type RetentionAnswer } from './question-definition.ts'

/** Who came back: their weighted mean as a line, and each period in which people started as a row. */
export function RetentionView ({ answered: { kept_from: kept }, answer, definition, onAsk, isFolded, open }: ViewProps<RetentionAnswer>) {
  const asked = Math.max(0, ...answer.cohorts.map(({ returned }) => returned.length))
  // It begins with the first data; what retention removed had some, perhaps.
  const cohorts = answer.cohorts.slice(Math.max(0, answer.cohorts.findIndex(({ people }) => people === null ? kept !== null : people > 0)))
  const isFirst = definition.kind === 'retention' && definition.cohort !== 'any'
  const unit = definition.kind === 'retention' ? definition.interval : ''
  const most = Math.max(0, ...cohorts.map(({ returned }) => returned.length))
  const mean = meanReturn(cohorts)
  const hasLine = mean.filter((share) => share !== null).length > 1
  const isNobody = answer.cohorts.every(({ people }) => people === 0 || (people === null && kept === null)) && definition.kind === 'retention'
  const head = [`In the ${unit} of`, '#People', ...Array.from({ length: Math.max(0, most - 1) }, (_, index) => `#${unit} ${index + 1}`)]
  const table = (
    <Table label='Retention' class='retention dense' head={head}>
      <tr class='total'>
        <td>Weighted mean</td><td />
        {mean.slice(1).map((share, index) => <td key={index} class='number'>{formatShare(share)}</td>)}
      </tr>
      {cohorts.map(({ start, people, returned }) => (
        <tr key={start}>
          <td><time dateTime={start}>{start}</time></td>
          <td class='number'><PeopleNumber of={people} title={`Started in the ${unit} of ${start}`} cell={{ start }} open={open} />{returned[0]?.is_partial === true && ' *'}</td>
          {returned.slice(1).map(({ people: back, is_partial: isPartial }, index) => {
            const share = shareOf(back, people)
            return (
              <td key={index} class='number' style={{ '--share': `${Math.round((share ?? 0) * 60)}%` }}>
                {formatShare(share)}{isPartial && ' *'}{share !== null && <small> <PeopleNumber of={back} title={`Started in the ${unit} of ${start}, returned in ${unit} ${index + 1}`} cell={{ start, returned: index + 1 }} open={open} /></small>}
              </td>
            )
          })}
        </tr>
      ))}
    </Table>
  )
  return (
    <>
      <p class='hint'>
        {isFirst
          ? `People count in the period in which they first did it${kept === null ? '' : ` since ${kept}, before which retention removed the events`}; anyone who did it before the range${kept === null ? '' : ', or was known before,'} is left out.`
          : 'People count in each period in which they did it, so the same person may be in several.'}{' '}
        {most > 1
          ? 'The columns show how many of them came back that many periods later. * marks a partial period.'
          : asked > 1 ? isNobody ? '' : `Nobody started before this ${unit}, so nobody could come back in a later one yet. * marks a partial period.` : `A range of one ${unit} has no later ${unit} in which anybody could come back. `}
        {asked < 2 && onAsk !== undefined && <button type='button' onClick={() => onAsk({ ...definition, range: { last: 8, unit } })}>Ask for the last 8 {unit}s</button>}
      </p>
      {hasLine && (
        <Chart
          columns={[{ name: 'period', type: 'String' }, { name: 'weighted mean, %', type: 'Float64' }]} along='periods since the start' chosen={{ kind: 'line', x: 0, y: [1] }}
          rows={mean.map((share, index) => [`${unit} ${index}`, share === null ? null : Number((100 * share).toFixed(1))])}
        />
      )}
      {isNobody
        ? <Empty>Nobody started in the range: {showText(describeEvent(definition.start), 300)}.</Empty>
        : <Numbers isFolded={isFolded && hasLine}>{table}</Numbers>}
    </>
  )
}
