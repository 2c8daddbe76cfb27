import type { PlainCalendar } from './plain-calendar.ts'
import { meets, type PlainEvent, type PlainQuestion } from './plain-question.ts'

export function plainRetention (
  { start, returning, cohort: belongs, returns: counting }: PlainQuestion, events: PlainEvent[],
  calendar: PlainCalendar & { now: number, begins: number }
): unknown {
  const { isIn, labelsOf, bucketOf, dayOf, now, begins } = calendar
  const labels = labelsOf(isIn)
  const inTime = events.filter(({ at }) => dayOf(at) < labels[0]! || isIn(at))
  const cohorts = new Map(labels.map((label) => [label, labels.slice(labels.indexOf(label)).map(() => 0)]))
  for (const of of Map.groupBy(inTime, ({ person }) => person).values()) {
    const starts = of.filter((event) => meets(start, event)).map(({ at }) => at)
    const counted = (belongs === 'any' ? starts : [Math.min(...starts)]).filter((at) => starts.length > 0 && isIn(at))
    const returns = of.filter((event) => isIn(event.at) && meets(returning, event))
    const later = new Set(returns.map(({ at }) => bucketOf(at)))
    for (const cohort of new Set(counted.map(bucketOf))) {
      const counts = cohorts.get(cohort)!
      counts[0]!++
      labels.slice(labels.indexOf(cohort) + 1).forEach((label, index) => {
        if (counting === 'on' ? later.has(label) : [...later].some((other) => other >= label)) counts[index + 1]!++
      })
    }
  }
  // Events of future days are not shown.
  const begun = labels.filter((label) => label <= bucketOf(now)).length
  return Object.fromEntries([...cohorts].map(([label, counts], index) =>
    [label, counts.slice(0, Math.max(0, begun - index)).map((count) => label < bucketOf(begins) ? null : count)]))
}
