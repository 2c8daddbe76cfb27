import { useState } from 'preact/hooks'
import { CHART_KINDS, isChartKind } from '../../../engines/charts/chart-model.ts'
import { chooseLines } from '../../../engines/charts/drawn-parts.ts'
import { formatCounted, formatMeasure, formatMs, formatZoned, pointName, showText } from '../format.ts'
import { projectId } from '../router.ts'
import { currentSession, may } from '../session.ts'
import { Chart } from '../sql/result-chart.tsx'
import { Empty, Numbers, Select, Table, UnknownEvents } from '../states.tsx'
import { AnnotationList, useAnnotations } from './annotations.tsx'
import { AsOf } from './as-of.tsx'
import { FunnelTimes } from './funnel-times.tsx'
import { FunnelView } from './funnel-view.tsx'
import { PathsView } from './paths-view.tsx'
import { type Behind, type Open, PeopleNumber, PersonsBehind, type ViewProps } from './persons-behind.tsx'
import { LifecycleView, StickinessView } from './activity-view.tsx'
import { type Answered, type Ask, type Definition, describeComparison, describeConditions, describeEvent, firstEvents, partName, type Point, type TrendAnswer, type TrendLine } from './question-definition.ts'
import { RetentionView } from './retention-view.tsx'

/** What a question says: a picture, the same as a table, and what it was computed from. */
export function AnswerView ({ answered, definition, onAsk }: { answered: Answered, definition: Definition, onAsk: Ask }) {
  return (
    <section aria-label='Answer'>
      <h2>Answer</h2>
      <AsOf through={answered.complete_through} gap={describeGap(answered)} facts={describeFacts(answered)} />
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
  const view = { answered, definition, isFolded, onAsk, open }
  const unknown = answered.unknown_events
  const sentence = <UnknownEvents names={unknown} />
  if (firstEvents(definition).every((name) => name !== null && unknown.includes(name))) return <>{sentence}</>
  return (
    <>
      {sentence}
      {answer.kind === 'trend' && <TrendView {...view} answer={answer} />}
      {answer.kind === 'funnel' && <FunnelView {...view} answer={answer} />}
      {answer.kind === 'funnel' && !isFolded && <FunnelTimes answer={answer} open={open} />}
      {answer.kind === 'paths' && <PathsView {...view} answer={answer} />}
      {answer.kind === 'retention' && <RetentionView {...view} answer={answer} />}
      {answer.kind === 'lifecycle' && <LifecycleView {...view} answer={answer} />}
      {answer.kind === 'stickiness' && <StickinessView {...view} answer={answer} />}
      {behind !== undefined && <PersonsBehind definition={definition} asOf={answered.as_of} behind={behind} onClose={() => setBehind(undefined)} />}
    </>
  )
}

/** Which days of an answer retention removed. */
export function describeGap ({ answer, from, kept_from: kept }: Answered): string | undefined {
  const first = answer.kind === 'trend' ? answer.previous?.from ?? from : from
  return kept === null || kept <= first ? undefined : `no values before ${kept} (UTC): retention removed the events`
}

/** What an answer was computed from. */
export function describeFacts (
  { from, to, timezone, complete_through: through, read_rows: rows, ms, includes_bots: bots, samples, cohorts }: Answered
): string {
  const members = cohorts.map(({ name, as_of: at }) => ` · cohort ${name} as of ${formatZoned(at)}`).join('')
  return `${from} to ${to}, days of ${timezone} · ${bots ? 'with' : 'without'} bots · ${samples === 'weighted' ? 'sampled events scaled up' : 'sampled events not scaled up'} · complete through ${
    through === null ? 'an unknown moment' : formatZoned(through)}${members} · ${formatCounted(rows, 'row')} read · ${formatMs(ms)}`
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

function TrendView ({ answered, answer: { points, lines, previous }, definition, isFolded, onAsk, open }: ViewProps<TrendAnswer>) {
  const { timezone, from } = answered
  const marks = useAnnotations(answered, points)
  const kind = definition.kind === 'trend' ? definition.display ?? 'line' : 'line'
  const now = nameLines(lines, definition, '')
  const before = nameLines(previous?.lines ?? [], definition, ' (before)')
  /** Undefined of the line of a formula. */
  const measureOf = ({ series }: TrendLine): string | undefined => definition.kind === 'trend' ? definition.series[series]?.measure : undefined
  const mayOpen = (line: TrendLine): boolean => ![undefined, 'groups'].includes(measureOf(line))
  const asked = definition.kind === 'trend' && definition.formula !== null ? definition.series.length : 0
  const drawn = chooseLines(now, previous === null ? undefined : before, asked)
    .map(({ line, colour, isBefore }) => ({ ...line, colour, isBefore, of: isBefore ? previous?.points ?? [] : points }))
  // A month may have more days than the one after it.
  const places = Array.from({ length: Math.max(points.length, previous?.points.length ?? 0) }, (_, index) => index)
  const state = (point?: Point): string => point?.is_removed === true ? ' removed' : point?.is_partial === true ? ' partial' : ''
  const nameAt = (of: TrendAnswer['points'], index: number): string => {
    const { start } = of[index] ?? {}
    return start === undefined ? '–' : pointName(start, timezone)
  }
  const columns = [{ name: 'start', type: 'String' }, ...drawn.map(({ title }) => ({ name: title, type: 'Float64' }))]
  const rows = kind === 'number'
    ? [['All of it', ...drawn.map(({ total }) => total)]]
    : places.map((index) => [nameAt(points, index), ...drawn.map(({ values }) => values[index] ?? null)])
  const looks = drawn.map(({ colour, isBefore, of }) => ({ colour, isBefore, partial: of.map(({ is_partial: isPartial }) => isPartial) }))
  const hasPartial = looks.some(({ partial }) => partial.includes(true))
  const nothing = now.filter(({ values }) => values.includes(0) && values.every((value) => value === null || value === 0)).map(({ title }) => title)
  const isEmpty = [...now, ...before].every(({ values }) => values.every((value) => value === null || value === 0)) && nothing.length > 0
  const comparison = previous !== null && <p class='hint numbers'>{describeComparison(previous, from, timezone)}</p>
  if (lines.length === 0) return <><Empty>No event in the range matches{definition.kind === 'trend' && `: ${showText(definition.series.map(describeEvent).join(', '), 300)}`}.</Empty>{comparison}</>
  const numbers = (of: NamedLine[], at?: number) => of.map((line) => {
    const isBefore = of === before
    const value = at === undefined ? line.total : line.values[at] ?? null
    const start = at === undefined ? null : (isBefore ? previous?.points : points)?.[at]?.start
    const cell = { series: line.series, part: line.part, value: line.value, start, previous: isBefore }
    const title = `${line.title}${start == null ? '' : `, ${pointName(start, timezone)}`}`
    return <td key={line.title} class='number'><PeopleNumber of={value} people={measureOf(line) === 'people' ? value : null} title={title} cell={cell} text={formatMeasure(value)} open={mayOpen(line) ? open : undefined} /></td>
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
      {onAsk !== undefined && !isEmpty && <Select label='Show as' value={kind} options={Object.entries(CHART_KINDS)} onChange={(display) => { if (definition.kind === 'trend' && isChartKind(display)) onAsk({ ...definition, display }, true) }} />}
      {!isEmpty && <Chart columns={columns} rows={rows} along='time' looks={looks} marks={kind === 'number' ? [] : marks} chosen={{ kind, x: 0, y: drawn.map((_, index) => index + 1) }} />}
      {!isEmpty && kind !== 'number' && <AnnotationList of={marks} mayChange={!isFolded} />}
      {nothing.length > 0 && <p class='hint'>All values are 0 for: {nothing.join(', ')}. Check the spelling of names and values.</p>}
      {comparison}
      {hasPartial && kind !== 'number' && <p class='hint'>{kind === 'bar' ? 'Pale' : 'Dotted'}: partial, because the period has not ended, or only part of it is in the range or in storage.</p>}
      {now.length + before.length > drawn.length && <p class='hint'>{drawn.length} of {now.length + before.length} lines are drawn; the table shows all.</p>}
      {lines.filter(({ left_out: leftOut }) => leftOut > 0).map((line) => (
        <p key={`${line.series} ${line.part} ${line.value}`} class='hint'>
          {line.part === 'all' ? '' : `${showText(partName(line), 40)}: `}{formatCounted(line.left_out, 'event')} without a number in the property left out of the {showText(line.name, 60)}.
        </p>
      ))}
      <Numbers isFolded={isFolded}>{table}</Numbers>
    </>
  )
}
