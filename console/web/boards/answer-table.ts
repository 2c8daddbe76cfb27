/** An answer as a table for files: every digit that the API sent, and no cell that a spreadsheet would run. */
import type { ChartKind } from '../../../engines/charts/chart-model.ts'
import { formatValue, isNumeric, type Value } from '../../../engines/charts/result-values.ts'
import type { Schema } from '../../api-types.ts'
import { formatShare, pointName, shareOf } from '../format.ts'
import { type Answered, type Definition, formatDuration, partName, type TrendAnswer } from '../questions/question-definition.ts'

/** What stands at one place of a board, answered. */
export interface TileAnswer extends Omit<Schema<'TileAnswer'>, 'question' | 'result'> {
  question: (Answered & { definition: Definition }) | null
  result: (Omit<NonNullable<Schema<'TileAnswer'>['result']>, 'rows' | 'chart'> & { rows: Value[][], chart: { kind: ChartKind } | null }) | null
}

export interface Cell {
  text: string
  isNumber: boolean
  /** Of a whole, from 0 to 1, to be drawn. */
  share?: number | null
  /** For people, where it differs. */
  shown?: string
}

/** `titles` are those of the columns for people, where they differ. */
export interface AnswerTable { head: string[], titles?: string[], rows: Cell[][] }

const word = (text: string): Cell => ({ text, isNumber: false })
const number = (value: number | null, share: number | null = null): Cell =>
  ({ text: value === null ? '' : String(value), isNumber: true, share })

export function tableOf ({ question, result }: TileAnswer): AnswerTable {
  if (question !== null) {
    const { answer, timezone } = question
    switch (answer.kind) {
      case 'trend': return tableOfTrend(answer, timezone)
      case 'funnel': return {
        head: ['value', 'step', 'people', 'conversion', 'median_ms', 'p90_ms'],
        titles: ['Of', 'Step', 'People', 'Of the first', 'Half took at most', '90 % took at most'],
        rows: answer.parts.flatMap((part) =>
          part.steps.map(({ name, people, conversion, median_ms: median, p90_ms: p90 }, index) => [
            word(partName(part)), word(name), number(people, conversion),
            { ...number(conversion), shown: formatShare(conversion) },
            { ...number(median), shown: index === 0 ? '–' : formatDuration(median) },
            { ...number(p90), shown: index === 0 ? '–' : formatDuration(p90) }
          ]))
      }
      case 'lifecycle': return {
        head: ['from', ...answer.states.map(({ state }) => state)],
        rows: answer.points.map(({ start }, at) =>
          [word(pointName(start, timezone)), ...answer.states.map(({ values }) => number(values[at] ?? null))])
      }
      case 'paths': return {
        head: ['step', 'from', 'to', 'people', 'paths'],
        rows: answer.edges.map(({ step, from, to, people, paths }) =>
          [number(step), word(from ?? '(all others)'), word(to ?? '(all others)'), number(people, shareOf(people, answer.people)), number(paths)])
      }
      case 'stickiness': return { head: ['periods', 'people'], rows: answer.counts.map(({ periods, people }) => [number(periods), number(people)]) }
      case 'retention': return {
        head: ['began', ...(answer.cohorts[0]?.returned ?? []).map((_, index) => String(index))],
        rows: answer.cohorts.map(({ start, people, returned }) =>
          [word(start), ...returned.map(({ people: back }) => number(back, shareOf(back, people)))])
      }
    }
  }
  const [names = [], types = []] = result?.columns ?? []
  return {
    head: names,
    rows: (result?.rows ?? []).map((row) => row.map((value, index) =>
      ({ text: value === null ? '' : formatValue(value, types[index] ?? ''), isNumber: value !== null && isNumeric(types[index] ?? '') })))
  }
}

function tableOfTrend ({ points, lines, previous }: TrendAnswer, timezone: string): AnswerTable {
  const mark = (marked: typeof lines, before: string) => marked.map((line) => ({ ...line, before }))
  const all = [...mark(lines, ''), ...mark(previous?.lines ?? [], ' (before)')]
  return {
    head: ['from', ...all.map((line) => `${line.part === 'all' ? line.name : `${line.name}, ${partName(line)}`}${line.before}`)],
    rows: [
      ...points.map(({ start }, index) =>
        [word(pointName(start, timezone)), ...all.map(({ values }) => number(values[index] ?? null))]),
      [word('all of it'), ...all.map(({ total }) => number(total))]
    ]
  }
}

/** Texts with which a spreadsheet begins a formula get an apostrophe, as in downloads of SQL. */
export function toCsv ({ head, rows }: AnswerTable): string {
  const quote = (text: string): string => `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`
  const lines = [head.map(quote), ...rows.map((row) => row.map(({ text, isNumber }) => isNumber ? text : quote(text)))]
  return lines.map((line) => `${line.join(',')}\n`).join('')
}
