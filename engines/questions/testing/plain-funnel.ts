import { byBytes, largest, meets, type PlainEvent, type PlainQuestion, tagOf, tagsOf } from './plain-question.ts'

function countByTime (took: number[], windowMs: number): number[] {
  const all = [...MINUTES.map((minutes) => minutes * 60_000), ...DAYS.map((days) => days * 86_400_000)]
  // The last range ends with the window, included.
  const starts = all.filter((ms) => ms < windowMs)
  const end = (index: number): number => starts[index + 1] ?? Infinity
  return starts.map((from, index) => took.filter((ms) => ms >= from && ms < end(index)).length)
}

interface Walk { tags: string[], took: (number | null)[] }

/** Where ranges of times begin, in minutes, and then in days. */
const MINUTES = [0, 1 / 6, 1, 5, 15, 60, 240, 720]
const DAYS = [1, 3, 7, 14, 30, 90]

export function plainFunnel (question: PlainQuestion, events: PlainEvent[]): unknown {
  const { steps, exclude, window, order, breakdown, attribution } = question
  const windowMs = window.value * { minute: 60_000, hour: 3_600_000, day: 86_400_000 }[window.unit]!
  const walks = [...Map.groupBy(events, ({ person }) => person).values()].flatMap((of): Walk[] => {
    const stepsOf = (event: PlainEvent): number[] => steps.flatMap((step, index) => meets(step, event) ? [index] : [])
    // Step of each, which it must not be on the way to; an excluded event that is no step comes last.
    const endsOf = (event: PlainEvent): number[] => exclude.flatMap((each) =>
      meets(each, event) ? Array.from({ length: each.to - each.from }, (_, index) => each.from + index) : [])
    const marksOf = (event: PlainEvent): number[] =>
      exclude.flatMap((each, index) => meets(each, event) ? [10 + index] : [])
    const list = of
      .map((event) => ({ event, at: event.at, steps: stepsOf(event), ends: endsOf(event), marks: marksOf(event) }))
      .filter((each) => each.steps.length > 0 || each.ends.length > 0)
      .sort((one, other) =>
        one.at - other.at || (one.steps[0] ?? 99) - (other.steps[0] ?? 99) || bits(one) - bits(other))
    const entries = list.filter((each) => order === 'any_order' || each.steps.includes(0))
    if (entries.length === 0) return []
    const first = Math.min(...entries.map(({ at }) => at))
    const tagsOfAll = (of: typeof list): string[] => of.filter((each) => each.steps.length > 0)
      .map(({ event }) => tagOf(breakdown, event)).sort(byBytes)
    const tags = breakdown?.type === 'cohort'
      ? tagsOf(breakdown, list[0]!.event)
      : attribution === 'any' ? [...new Set(tagsOfAll(list))] : tagsOfAll(entries.filter(({ at }) => at === first)).slice(0, 1)
    const walk = order === 'any_order' ? walkAnyOrder : walkInOrder
    return [{ tags, took: walk(list, steps.length, windowMs) }]
  })
  const ranks = new Map<string, number>()
  for (const tag of walks.flatMap(({ tags }) => tags)) ranks.set(tag, (ranks.get(tag) ?? 0) + 1)
  const top = largest(ranks, breakdown?.limit ?? 1)
  const shown = (walk: Walk): string[] => [...new Set(walk.tags.map((tag) => breakdown?.type === 'cohort' || top.has(tag) ? tag : 'rest'))]
  const summary = (of: Walk[]): unknown => steps.map((_, step) => {
    const took = of.flatMap((walk) => walk.took[step] ?? []).sort((a, b) => a - b)
    const within = (tenths: number): number | null => took[Math.ceil(took.length * tenths / 10) - 1] ?? null
    return [took.length, within(5), within(9), step === 0 ? [] : countByTime(took, windowMs)]
  })
  const tags = breakdown === null ? [] : [...new Set(walks.flatMap(shown))]
  const parts = tags.map((tag) => [tag, walks.filter((walk) => shown(walk).includes(tag))] as const)
  return { all: summary(walks), parts: Object.fromEntries(parts.map(([tag, of]) => [tag, summary(of)])) }
}

const bits = ({ steps, marks }: { steps: number[], marks: number[] }): number =>
  [...steps, ...marks].reduce((sum, step) => sum + 2 ** step, 0)

type Listed = { at: number, steps: number[], ends: number[] }[]

/** From each first step, on to every event that may be the next one, past none that must not happen before it. */
function walkInOrder (list: Listed, count: number, windowMs: number): (number | null)[] {
  const best: ({ at: number, took: number } | null)[] = Array.from({ length: count }, () => null)
  list.forEach((start, from) => {
    if (!start.steps.includes(0)) return
    let reached = [from]
    for (let step = 0; step < count && reached.length > 0; step++) {
      const at = Math.min(...reached)
      const [before, took] = [best[step], list[at]!.at - start.at]
      // First reached there, from the latest start.
      const isBetter = before == null || at < before.at || (at === before.at && took <= before.took)
      if (isBetter) best[step] = { at, took }
      const isNext = (to: number): boolean => list[to]!.steps.includes(step + 1) && list[to]!.at - start.at <= windowMs
      const isFree = (from: number, to: number): boolean =>
        !list.slice(from + 1, to).some(({ ends }) => ends.includes(step + 1))
      const leads = (to: number): boolean => reached.some((at) => at < to && isFree(at, to))
      reached = list.flatMap((_, to) => isNext(to) && leads(to) ? [to] : [])
    }
  })
  return best.map((each) => each?.took ?? null)
}

function walkAnyOrder (list: Listed, count: number, windowMs: number): (number | null)[] {
  const took: (number | null)[] = Array.from({ length: count }, () => null)
  list.forEach((end, index) => {
    const near = list.slice(0, index + 1).filter(({ at }) => end.at - at <= windowMs)
    const byStep = [...Map.groupBy(near, ({ steps }) => steps[0]).values()]
    const latest = byStep.map((of) => Math.max(...of.map(({ at }) => at)))
    latest.sort((a, b) => b - a).forEach((at, step) => { took[step] ??= end.at - at })
  })
  return took
}
