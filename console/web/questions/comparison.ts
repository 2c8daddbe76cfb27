/** What a trend says about the time before that it is compared with, so that two lines are never compared unawares. */
import { formatterOf } from '../format.ts'
import { pointName, type TrendAnswer } from './question-definition.ts'

type Previous = NonNullable<TrendAnswer['previous']>

/**
 * Which time it is, whether it stops before its end, and from when it has values.
 *
 * @param firstDay  Of the range.
 * @param timezone  IANA name, of the project.
 */
export function describeComparison ({ from, to, points, lines }: Previous, firstDay: string, timezone: string): string {
  const name = (at: number | string): string => formatterOf(timezone).format(new Date(at)).slice(0, 16)
  const isWhole = name(to).startsWith(firstDay)
  const end = isWhole ? name(Date.parse(to) - 1).slice(0, 10) : name(to)
  const days = `Before: ${name(from).slice(0, 10)} to ${end}.`
  const soFar = isWhole ? '' : ' The range is still running, so the time before stops at the same point.'
  const first = points.findIndex((_, index) => lines.some(({ values }) => (values[index] ?? 0) !== 0))
  const values = first === -1
    ? ' Nothing of it meets the question, so there is nothing to compare with.'
    : first === 0 ? '' : ` Its first values are of ${pointName(points[first]?.start ?? '', timezone)}: it had nothing earlier.`
  return days + soFar + values
}
