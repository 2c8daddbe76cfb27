import type { PlainCalendar } from './plain-calendar.ts'
import { meets, type PlainEvent, type PlainQuestion } from './plain-question.ts'

/** The periods of each person, the range's and earlier ones, by their first days. */
function activePeriods (question: PlainQuestion, events: PlainEvent[], { bucketOf }: PlainCalendar): Set<string>[] {
  const { activity } = question
  const active = events.filter((event) => meets(activity, event))
  const byPerson = Map.groupBy(active, ({ person }) => person)
  return [...byPerson.values()].map((of) => new Set(of.map(({ at }) => bucketOf(at))))
}

type Test = (isNow: boolean, wasBefore: boolean, wasEver: boolean) => boolean

export function plainLifecycle (
  question: PlainQuestion, events: PlainEvent[], calendar: PlainCalendar & { now: number }
): unknown {
  const { isIn, labelsOf, bucketOf, dayOf, now } = calendar
  const labels = labelsOf(isIn)
  const inTime = events.filter(({ at }) => dayOf(at) < labels[0]! || isIn(at))
  const people = activePeriods(question, inTime, calendar)
  // The period before the first one ends a day before it.
  const dayBefore = new Date(Date.parse(labels[0]!) - 86_400_000).toISOString().slice(0, 10)
  const before = labelsOf(() => true).findLast((label) => label <= dayBefore)!
  const count = (label: string, test: Test): number | null => {
    if (label > bucketOf(now)) return null
    const previous = labels[labels.indexOf(label) - 1] ?? before
    const meets = (periods: Set<string>): boolean =>
      test(periods.has(label), periods.has(previous), [...periods].some((each) => each < label))
    return people.filter(meets).length
  }
  return {
    starts: labels,
    new: labels.map((label) => count(label, (isNow, _, wasEver) => isNow && !wasEver)),
    returning: labels.map((label) => count(label, (isNow, wasBefore) => isNow && wasBefore)),
    resurrecting: labels.map((label) => count(label, (isNow, wasBefore, wasEver) => isNow && !wasBefore && wasEver)),
    dormant: labels.map((label) => count(label, (isNow, wasBefore) => !isNow && wasBefore))
  }
}

export function plainStickiness (question: PlainQuestion, events: PlainEvent[], calendar: PlainCalendar): unknown {
  const people = activePeriods(question, events.filter(({ at }) => calendar.isIn(at)), calendar)
  return calendar.labelsOf(calendar.isIn).map((_, index) => people.filter(({ size }) => size === index + 1).length)
}
