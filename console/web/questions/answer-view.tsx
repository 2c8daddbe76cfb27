import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { formatCount, formatCounted, formatMs, formatterOf, formatUtc, formatZoned, showText, zoneLabel } from '../format.ts'
import { useLoaded } from '../load.ts'
import { projectId } from '../router.ts'
import { currentSession, may } from '../session.ts'
import { Chart } from '../sql/result-chart.tsx'
import { Dialog, Empty, Show, Table, Time } from '../states.tsx'
import { linkTo } from '../router.ts'
import { type Answered, type Definition, describeComparison, describeConditions, describeEvent, formatDuration, formatMeasure, formatShare, type FunnelAnswer, partName, type Point, pointName, type RetentionAnswer, shareOf, type TrendAnswer, type TrendLine } from './question-definition.ts'

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
  switch (answer.kind) {
    case 'trend': return <TrendView answered={answered} answer={answer} definition={definition} isFolded={isFolded} />
    case 'funnel': return <FunnelView answered={answered} answer={answer} definition={definition} mayOpen={!isFolded && may('person:read')} />
    case 'retention': return <RetentionView answered={answered} answer={answer} definition={definition} onAsk={onAsk} />
  }
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

interface TrendViewProps { answered: Answered, answer: TrendAnswer, definition: Definition, isFolded: boolean }

function TrendView ({ answered: { timezone, from }, answer: { points, lines, previous }, definition, isFolded }: TrendViewProps) {
  const now = nameLines(lines, definition, '')
  const before = nameLines(previous?.lines ?? [], definition, ' (before)')
  const drawn = now.slice(0, previous === null ? DRAWN : DRAWN_PAIRS).flatMap((line, colour) => {
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
  const table = (
    <Table label='Values' class='dense' head={['From', ...now.map(({ title }) => `#${title}`), previous !== null && 'Before, from', ...before.map(({ title }) => `#${title}`)]}>
      <tr class='total'>
        <td>All of it</td>
        {now.map(({ title, total }) => <td key={title} class='number'>{formatMeasure(total)}</td>)}
        {previous !== null && <td />}
        {before.map(({ title, total }) => <td key={title} class='number'>{formatMeasure(total)}</td>)}
      </tr>
      {places.map((index) => (
        <tr key={index}>
          <td><time dateTime={points[index]?.start}>{nameAt(points, index)}</time><span class='hint'>{state(points[index])}</span></td>
          {now.map(({ title, values }) => <td key={title} class='number'>{formatMeasure(values[index] ?? null)}</td>)}
          {previous !== null && <td><time dateTime={previous.points[index]?.start}>{nameAt(previous.points, index)}</time><span class='hint'>{state(previous.points[index])}</span></td>}
          {before.map(({ title, values }) => <td key={title} class='number'>{formatMeasure(values[index] ?? null)}</td>)}
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

/** Those of a part who did not get to a step. */
interface Dropped { of: FunnelPart, step: number, lost: number }

/** Maximum number of listed persons. */
const LISTED = 100

interface FunnelViewProps { answered: Answered, answer: FunnelAnswer, definition: Definition, mayOpen: boolean }

function FunnelView ({ answered: { to, timezone }, answer, definition, mayOpen }: FunnelViewProps) {
  const [dropped, setDropped] = useState<Dropped>()
  const [all, ...parts] = answer.parts
  if (all === undefined || definition.kind !== 'funnel') return null
  const { window: limit } = definition
  // Only events of the range count, so that nobody has time left after it.
  const hasTime = to >= formatterOf(timezone).format(Date.now()).slice(0, 10)
  const last = ({ steps }: FunnelPart): number => steps.at(-1)?.conversion ?? 0
  return (
    <>
      <Table label='Steps' class='dense' head={['Step', '#People', '#Of the first', '#Of the one before', '#Median time', '-Picture', mayOpen && '-Who dropped out']}>
        {all.steps.map(({ name, people, conversion, median_ms: median }, index) => {
          const before = all.steps[index - 1]
          const lost = (before?.people ?? 0) - (before === undefined ? 0 : people ?? 0)
          return (
            <tr key={index}>
              <td class='value'>{index + 1}.{'\u00a0'}{showText(name, 60)}</td>
              <td class='number'>{formatCount(people)}</td>
              <td class='number' style={{ '--share': formatShare(conversion).replace(' ', '') }}>{formatShare(conversion)}</td>
              <td class='number'>{formatShare(shareOf(people, before?.people))}</td>
              <td class='number'>{index === 0 ? '–' : formatDuration(median)}</td>
              <td><Bar share={conversion ?? 0} /></td>
              {mayOpen && <td>{lost > 0 && <button type='button' onClick={() => setDropped({ of: all, step: index + 1, lost })}>{formatCount(lost)} dropped out<span class='hidden'> before step {index + 1}</span></button>}</td>}
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
                <td class='number'>{formatCount(part.steps[0]?.people)}</td>
                {part.steps.slice(1).map(({ people, conversion }, index) => {
                  const lost = (part.steps[index]?.people ?? 0) - (people ?? 0)
                  return (
                    <td key={index} class='number' style={{ '--share': formatShare(conversion).replace(' ', '') }}>
                      {formatShare(conversion)}<small> {formatCount(people)}</small>
                      {mayOpen && lost > 0 && <button type='button' class='quiet' title='dropped out' onClick={() => setDropped({ of: part, step: index + 2, lost })}>−{formatCount(lost)}<span class='hidden'> dropped out before step {index + 2}: {partName(part)}</span></button>}
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
      {dropped !== undefined && <Dropouts definition={definition} dropped={dropped} onClose={() => setDropped(undefined)} />}
    </>
  )
}

/** The number stands beside it. */
function Bar ({ share }: { share: number }) {
  return <svg class='share' aria-hidden='true' width='160' height='14' viewBox='0 0 160 14' preserveAspectRatio='none'><rect class='whole' width='160' height='14' /><rect width={share * 160} height='14' /></svg>
}

function Dropouts ({ definition, dropped: { of: { part, value }, step, lost }, onClose }: { definition: Definition, dropped: Dropped, onClose: () => void }) {
  const list = useLoaded(`dropouts ${step} ${part} ${value}`, async (signal) =>
    await request<{ results: { person_id: string, entered_at: string, name: string, is_known: boolean }[] }>(`/api/projects/${projectId.value}/questions/dropouts`, {
      method: 'POST', body: { definition, step, limit: LISTED, part, value }, signal
    }))
  return (
    <Dialog title={`Who did not get to step ${step}${part === 'all' ? '' : `: ${showText(partName({ part, value }), 60)}`}`} onClose={onClose} isWide>
      <Show of={list} what='The persons'>
        {({ results }) => (
          <>
            <p class='hint'>Latest entry first{lost > LISTED && `: the first ${LISTED} of ${formatCount(lost)}`}.</p>
            <Table label='Persons' head={['Person', `Entered (${zoneLabel()})`]}>
              {results.map(({ person_id: person, entered_at: at, name, is_known: isKnown }) => (
                <tr key={person}>
                  <td><a {...linkTo(`/projects/${projectId.value}/${isKnown ? 'persons/' : 'stored?person='}${person}`)}>{name === '' ? person : showText(name, 80)}</a></td>
                  <td><Time at={at} /></td>
                </tr>
              ))}
            </Table>
          </>
        )}
      </Show>
      <p class='actions'><button type='button' onClick={onClose}>Close</button></p>
    </Dialog>
  )
}

interface RetentionViewProps { answered: Answered, answer: RetentionAnswer, definition: Definition, onAsk?: Ask | undefined }

function RetentionView ({ answered: { kept_from: kept }, answer: { cohorts }, definition, onAsk }: RetentionViewProps) {
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
            <td class='number'>{formatCount(people)}{returned[0]?.is_partial === true && ' *'}</td>
            {returned.slice(1).map(({ people: back, is_partial: isPartial }, index) => {
              const share = shareOf(back, people)
              return (
                <td key={index} class='number' style={{ '--share': `${Math.round((share ?? 0) * 60)}%` }}>
                  {formatShare(share)}{isPartial && ' *'}{share !== null && <small> {formatCount(back)}</small>}
                </td>
              )
            })}
          </tr>
        ))}
      </Table>
    </>
  )
}
