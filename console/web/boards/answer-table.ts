/** An answer as a table for files: every digit that the API sent, and no cell that a spreadsheet would run. */
import type { ChartChoice } from '../../../engines/charts/chart-model.ts'
import { type Column, formatValue, isNumeric, type Value } from '../../../engines/charts/result-values.ts'
import type { Schema } from '../../api-types.ts'
import { pointName } from '../format.ts'
import { type Answered, type Definition, partName, type TrendAnswer } from '../questions/question-definition.ts'

/** What stands at one place of a board, answered. */
export interface TileAnswer extends Omit<Schema<'TileAnswer'>, 'question' | 'result'> {
  question: (Answered & { definition: Definition }) | null
  result: (Omit<NonNullable<Schema<'TileAnswer'>['result']>, 'rows' | 'chart'> & { rows: Value[][], chart: ChartChoice | null }) | null
}

interface Cell { text: string, isNumber: boolean }

export interface AnswerTable { head: string[], rows: Cell[][] }

const word = (text: string): Cell => ({ text, isNumber: false })
const number = (value: number | null): Cell => ({ text: value === null ? '' : String(value), isNumber: true })

export function columnsOf (result: TileAnswer['result']): Column[] {
  const [names = [], types = []] = result?.columns ?? []
  return names.map((name, index) => ({ name, type: types[index] ?? '' }))
}

export function tableOf ({ question, result }: TileAnswer): AnswerTable {
  if (question !== null) {
    const { answer, timezone } = question
    switch (answer.kind) {
      case 'trend': return tableOfTrend(answer, timezone)
      case 'funnel': return {
        head: ['value', 'step', 'people', 'conversion', 'median_ms', 'p90_ms'],
        rows: answer.parts.flatMap((part) =>
          part.steps.map(({ name, people, conversion, median_ms: median, p90_ms: p90 }) =>
            [word(partName(part)), word(name), number(people), number(conversion), number(median), number(p90)]))
      }
      case 'lifecycle': return {
        head: ['from', ...answer.states.map(({ state }) => state)],
        rows: answer.points.map(({ start }, at) =>
          [word(pointName(start, timezone)), ...answer.states.map(({ values }) => number(values[at] ?? null))])
      }
      case 'paths': return {
        head: ['step', 'from', 'to', 'people', 'paths'],
        rows: answer.edges.map(({ step, from, to, people, paths }) =>
          [number(step), word(from ?? '(all others)'), word(to ?? '(all others)'), number(people), number(paths)])
      }
      case 'stickiness': return { head: ['periods', 'people'], rows: answer.counts.map(({ periods, people }) => [number(periods), number(people)]) }
      case 'retention': return {
        head: ['began', ...(answer.cohorts[0]?.returned ?? []).map((_, index) => String(index))],
        rows: answer.cohorts.map(({ start, returned }) =>
          [word(start), ...returned.map(({ people: back }) => number(back))])
      }
    }
  }
  const columns = columnsOf(result)
  return {
    head: columns.map(({ name }) => name),
    rows: (result?.rows ?? []).map((row) => row.map((value, index) => {
      const { type = '' } = columns[index] ?? {}
      return { text: value === null ? '' : formatValue(value, type), isNumber: value !== null && isNumeric(type) }
    }))
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
