import { useState } from 'preact/hooks'
import { formatCount, formatCounted, formatMs, formatterOf, formatUtc, formatZoned, showText } from '../format.ts'
import { projectId } from '../router.ts'
import { currentSession, may } from '../session.ts'
import { Chart } from '../sql/result-chart.tsx'
import { Empty, Table } from '../states.tsx'
import { FunnelTimes } from './funnel-times.tsx'
import { PathsView } from './paths-view.tsx'
import { type Behind, type Open, PeopleNumber, PersonsBehind } from './persons-behind.tsx'
import { LifecycleView, StickinessView } from './activity-view.tsx'
import { type Answered, type Definition, describeComparison, describeConditions, describeEvent, firstEvents, formatDuration, formatMeasure, formatShare, type FunnelAnswer, partName, type Point, pointName, type RetentionAnswer, shareOf, type TrendAnswer, type TrendLine } from './question-definition.ts'

/** Asks another question instead. */
type Ask = (definition: Definition) => void

/** What a question says: a picture, the same as a table, and what it was computed from. */
export function AnswerView ({ answered, definition, onAsk }: { answered: Answered, definition: Definition, onAsk: Ask }) {
  return (
    <section aria-label='Answer'>
      <h2>Answer</h2>
      <p class='hint numbers' role='status' title={`complete through ${formatUtc(answered.complete_through)}`}>{describeFacts(answered)}</p>
      <AnswerPicture answered={answered} definition={definition} onAsk={onAsk} />
      <Sql sql={answered.sql} />
    </section>
  )
}

/** The picture and its table. @param props.isFolded  Whether the table of a drawing is behind a fold. */
export function AnswerPicture (
  { answered, definition, onAsk, isFolded = false }: { answered: Answered, definition: Definition, onAsk?: Ask, isFolded?: boolean }
) {
  const { answer } = answered
  const [behind, setBehind] = useState<Behind>()
  const open: Open = !isFolded && may('person:read') ? setBehind : undefined
  const unknown = answered.unknown_events
  const sentence = unknown.length > 0 && <Empty>No event of this project ever had the name {unknown.map((name) => `“${showText(name, 100)}”`).join(', ')}. Check the spelling.</Empty>
  if (firstEvents(definition).every((name) => name !== null && unknown.includes(name))) return <>{sentence}</>
  return (
    <>
      {sentence}
      {answer.kind === 'trend' && <TrendView answered={answered} answer={answer} definition={definition} isFolded={isFolded} open={open} />}
      {answer.kind === 'funnel' && <FunnelView answered={answered} answer={answer} definition={definition} open={open} />}
      {answer.kind === 'funnel' && !isFolded && <FunnelTimes answer={answer} open={open} />}
      {answer.kind === 'paths' && <PathsView answer={answer} definition={definition} open={open} />}
      {answer.kind === 'retention' && <RetentionView answered={answered} answer={answer} definition={definition} onAsk={onAsk} open={open} />}
      {answer.kind === 'lifecycle' && <LifecycleView answered={answered} answer={answer} isFolded={isFolded} open={open} />}
      {answer.kind === 'stickiness' && <StickinessView answer={answer} unit={'activity' in definition ? definition.interval : ''} open={open} />}
      {behind !== undefined && <PersonsBehind definition={definition} behind={behind} onClose={() => setBehind(undefined)} />}
    </>
  )
}

/** What an answer was computed from. */
export function describeFacts (
  { answer, from, to, timezone, kept_from: kept, complete_through: through, read_rows: rows, ms, includes_bots: bots, samples }: Answered
): string {
  const first = answer.kind === 'trend' ? answer.previous?.from ?? from : from
  const removed = kept !== null && kept > first ? ` · no values before ${kept} (UTC): retention removed the events` : ''
  return `${from} to ${to}, days of ${timezone}${removed} · ${bots ? 'with' : 'without'} bots · ${samples === 'weighted' ? 'sampled events scaled up' : 'sampled events not scaled up'} · complete through ${
    through === null ? 'an unknown moment' : formatZoned(through)} · ${formatCounted(rows, 'row')} read · ${formatMs(ms)}`
}

/** The query that gave the answer; who may run SQL opens it there. Behind the #, it stays in the browser. */
function Sql ({ sql }: { sql: string }) {
  return (
    <details>
      <summary>The SQL of this answer</summary>
      {currentSession().all_projects && <p><a href={`/console/projects/${projectId.value}/sql#${new URLSearchParams({ sql }).toString()}`}>Open it in SQL</a></p>}
      <pre tabIndex={0} aria-label='SQL'>{sql}</pre>
    </details>
  )
}

/** Number of lines distinguishable by color; fewer with a previous period. */
const DRAWN = 5
const DRAWN_PAIRS = 3

interface NamedLine extends TrendLine { title: string }

/** Title of a line: its event and conditions, or the value of the breakdown. */
function nameLines (lines: readonly TrendLine[], definition: Definition, suffix: string): NamedLine[] {
  return lines.map((line) => {
    const isAmongSeveral = lines.some(({ series }) => series !== line.series)
    const series = `${line.name}${describeConditions(definition.kind === 'trend' ? definition.series[line.series]?.where ?? [] : [])}`
    const name = line.part === 'all' ? series : partName(line)
    const number = isAmongSeveral ? `${line.series + 1}: ` : ''
    const of = isAmongSeveral && line.part !== 'all' ? `${series}, ` : ''
    return { ...line, title: showText(`${number}${of}${name}`, 100) + suffix }
  })
}

interface TrendViewProps { answered: Answered, answer: TrendAnswer, definition: Definition, isFolded: boolean, open: Open }

function TrendView ({ answered: { timezone, from }, answer: { points, lines, previous }, definition, isFolded, open }: TrendViewProps) {
  const now = nameLines(lines, definition, '')
  const before = nameLines(previous?.lines ?? [], definition, ' (before)')
  const hasFormula = definition.kind === 'trend' && definition.formula !== null
  const isAsked = ({ series }: TrendLine): boolean => definition.kind === 'trend' && series < definition.series.length
  const mayOpen = (line: TrendLine): boolean => isAsked(line) && definition.kind === 'trend' && definition.series[line.series]?.measure !== 'groups'
  const drawn = now.filter((line) => !hasFormula || !isAsked(line)).slice(0, previous === null ? DRAWN : DRAWN_PAIRS).flatMap((line, colour) => {
    const then = before.find(({ series, part, value }) => series === line.series && part === line.part && value === line.value)
    return [{ ...line, colour, of: points, isBefore: false }, ...then === undefined ? [] : [{ ...then, colour, of: previous?.points ?? [], isBefore: true }]]
  })
  // A month may have more days than the one after it.
  const places = Array.from({ length: Math.max(points.length, previous?.points.length ?? 0) }, (_, index) => index)
  const state = (point?: Point): string => point?.is_removed === true ? ' removed' : point?.is_partial === true ? ' partial' : ''
  const nameAt = (of: TrendAnswer['points'], index: number): string => {
    const { start } = of[index] ?? {}
    return start === undefined ? '–' : pointName(start, timezone)
  }
  const columns = [{ name: 'start', type: 'String' }, ...drawn.map(({ title }) => ({ name: title, type: 'Float64' }))]
  const rows = places.map((index) => [nameAt(points, index), ...drawn.map(({ values }) => values[index] ?? null)])
  const looks = drawn.map(({ colour, isBefore, of }) => ({ colour, isBefore, partial: of.map(({ is_partial: isPartial }) => isPartial) }))
  const hasPartial = looks.some(({ partial }) => partial.includes(true))
  const nothing = now.filter(({ values }) => values.includes(0) && values.every((value) => value === null || value === 0)).map(({ title }) => title)
  const comparison = previous !== null && <p class='hint numbers'>{describeComparison(previous, from, timezone)}</p>
  if (lines.length === 0) return <><Empty>No event in the range matches{definition.kind === 'trend' && `: ${showText(definition.series.map(describeEvent).join(', '), 300)}`}.</Empty>{comparison}</>
  const numbers = (of: NamedLine[], at?: number) => of.map((line) => {
    const isBefore = of === before
    const value = at === undefined ? line.total : line.values[at] ?? null
    const start = at === undefined ? null : (isBefore ? previous?.points : points)?.[at]?.start
    const cell = { series: line.series, part: line.part, value: line.value, start, previous: isBefore }
    const title = `${line.title}${start == null ? '' : `, ${pointName(start, timezone)}`}`
    return <td key={line.title} class='number'><PeopleNumber of={value} title={title} cell={cell} text={formatMeasure(value)} open={mayOpen(line) ? open : undefined} /></td>
  })
  const table = (
    <Table label='Values' class='dense' head={['From', ...now.map(({ title }) => `#${title}`), previous !== null && 'Before, from', ...before.map(({ title }) => `#${title}`)]}>
      <tr class='total'>
        <td>All of it</td>
        {numbers(now)}
        {previous !== null && <td />}
        {numbers(before)}
      </tr>
      {places.map((index) => (
        <tr key={index}>
          <td><time dateTime={points[index]?.start}>{nameAt(points, index)}</time><span class='hint'>{state(points[index])}</span></td>
          {numbers(now, index)}
          {previous !== null && <td><time dateTime={previous.points[index]?.start}>{nameAt(previous.points, index)}</time><span class='hint'>{state(previous.points[index])}</span></td>}
          {numbers(before, index)}
        </tr>
      ))}
    </Table>
  )
  return (
    <>
      <Chart columns={columns} rows={rows} along='time' looks={looks} chosen={{ kind: 'line', x: 0, y: drawn.map((_, index) => index + 1) }} />
      {nothing.length > 0 && <p class='hint'>All values are 0 for: {nothing.join(', ')}. Check the spelling of names and values.</p>}
      {comparison}
      {hasPartial && <p class='hint'>Dotted: partial, because the period has not ended, or only part of it is in the range or in storage.</p>}
      {now.length + before.length > drawn.length && <p class='hint'>{drawn.length} of {now.length + before.length} lines are drawn; the table shows all.</p>}
      {lines.filter(({ left_out: leftOut }) => leftOut > 0).map((line) => (
        <p key={`${line.series} ${line.part} ${line.value}`} class='hint'>
          {line.part === 'all' ? '' : `${showText(partName(line), 40)}: `}{formatCounted(line.left_out, 'event')} without a number in the property left out of the {showText(line.name, 60)}.
        </p>
      ))}
      {isFolded ? <details><summary>The numbers</summary>{table}</details> : table}
    </>
  )
}

type FunnelPart = FunnelAnswer['parts'][number]

interface FunnelViewProps { answered: Answered, answer: FunnelAnswer, definition: Definition, open: Open }

function FunnelView ({ answered: { to, timezone }, answer, definition, open }: FunnelViewProps) {
  const [all, ...parts] = answer.parts
  if (all === undefined || definition.kind !== 'funnel') return null
  const { window: limit } = definition
  // Only events of the range count, so that nobody has time left after it.
  const hasTime = to >= formatterOf(timezone).format(Date.now()).slice(0, 10)
  const place = ({ part, value }: FunnelPart, step: number, outcome: 'reached' | 'lost') => ({
    title: `${outcome === 'reached' ? 'Reached' : 'Did not reach'} step ${step}${part === 'all' ? '' : `: ${partName({ part, value })}`}`,
    cell: { part, value, step, outcome }
  })
  const last = ({ steps }: FunnelPart): number => steps.at(-1)?.conversion ?? 0
  return (
    <>
      <Table label='Steps' class='dense' head={['Step', '#People', '#Of the first', '#Of the one before', '#Median time', '-Picture', open !== undefined && '-Who dropped out']}>
        {all.steps.map(({ name, people, conversion, median_ms: median }, index) => {
          const before = all.steps[index - 1]
          const lost = (before?.people ?? 0) - (before === undefined ? 0 : people ?? 0)
          return (
            <tr key={index}>
              <td class='value'>{index + 1}.{'\u00a0'}{showText(name, 60)}</td>
              <td class='number'><PeopleNumber of={people} {...place(all, index + 1, 'reached')} open={open} /></td>
              <td class='number' style={{ '--share': formatShare(conversion).replace(' ', '') }}>{formatShare(conversion)}</td>
              <td class='number'>{formatShare(shareOf(people, before?.people))}</td>
              <td class='number'>{index === 0 ? '–' : formatDuration(median)}</td>
              <td><Bar share={conversion ?? 0} /></td>
              {open !== undefined && <td>{lost > 0 && <button type='button' onClick={() => open(place(all, index + 1, 'lost'))}>{formatCount(lost)} dropped out<span class='hidden'> before step {index + 1}</span></button>}</td>}
            </tr>
          )
        })}
      </Table>
      {hasTime && <p class='hint'>People who entered in the last {formatCounted(limit.value, limit.unit)} still have time for the remaining steps, and count as dropped out.</p>}
      {parts.length > 0 && (
        <>
          <Table label='By value' class='dense' head={['Value', '#Entered', ...all.steps.slice(1).map(({ name }, index) => `#${index + 2}. ${showText(name, 30)}`), '#Median time', '-Picture']}>
            {parts.map((part) => (
              <tr key={`${part.part} ${part.value}`}>
                <td>{showText(partName(part), 60)}</td>
                <td class='number'><PeopleNumber of={part.steps[0]?.people} {...place(part, 1, 'reached')} open={open} /></td>
                {part.steps.slice(1).map(({ people, conversion }, index) => {
                  const lost = (part.steps[index]?.people ?? 0) - (people ?? 0)
                  return (
                    <td key={index} class='number' style={{ '--share': formatShare(conversion).replace(' ', '') }}>
                      {formatShare(conversion)}<small> <PeopleNumber of={people} {...place(part, index + 2, 'reached')} open={open} /></small>
                      {open !== undefined && lost > 0 && <button type='button' class='quiet' title='dropped out' onClick={() => open(place(part, index + 2, 'lost'))}>−{formatCount(lost)}<span class='hidden'> dropped out before step {index + 2}: {partName(part)}</span></button>}
                    </td>
                  )
                })}
                <td class='number'>{formatDuration(part.steps.at(-1)?.median_ms ?? null)}</td>
                <td><Bar share={last(part)} /></td>
              </tr>
            ))}
          </Table>
        </>
      )}
    </>
  )
}

/** The number stands beside it. */
function Bar ({ share }: { share: number }) {
  return <svg class='share' aria-hidden='true' width='160' height='14' viewBox='0 0 160 14' preserveAspectRatio='none'><rect class='whole' width='160' height='14' /><rect width={share * 160} height='14' /></svg>
}

interface RetentionViewProps { answered: Answered, answer: RetentionAnswer, definition: Definition, onAsk?: Ask | undefined, open: Open }

function RetentionView ({ answered: { kept_from: kept }, answer: { cohorts }, definition, onAsk, open }: RetentionViewProps) {
  const isFirst = definition.kind === 'retention' && definition.cohort !== 'any'
  const unit = definition.kind === 'retention' ? definition.interval : ''
  const most = Math.max(0, ...cohorts.map(({ returned }) => returned.length))
  return (
    <>
      <p class='hint'>
        {isFirst
          ? `People count in the period in which they first did it${kept === null ? '' : ` since ${kept}, before which retention removed the events`}; anyone who did it before the range${kept === null ? '' : ', or was known before,'} is left out.`
          : 'People count in each period in which they did it, so the same person may be in several.'}{' '}
        {most > 1 ? 'The columns show how many of them came back that many periods later. * marks a partial period.' : `A range of one ${unit} has no later ${unit} in which anybody could come back. `}
        {most < 2 && onAsk !== undefined && <button type='button' onClick={() => onAsk({ ...definition, range: { last: 8, unit } })}>Ask for the last 8 {unit}s</button>}
      </p>
      <Table label='Retention' class='retention dense' head={[`In the ${unit} of`, '#People', ...Array.from({ length: Math.max(0, most - 1) }, (_, index) => `#${unit} ${index + 1}`)]}>
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
    </>
  )
}
