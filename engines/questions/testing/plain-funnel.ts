import { byBytes, largest, meets, type PlainEvent, type PlainQuestion, tagOf } from './plain-question.ts'

interface Walk { tags: string[], took: (number | null)[] }

export function plainFunnel ({ steps, window, order, breakdown, attribution }: PlainQuestion, events: PlainEvent[]): unknown {
  const windowMs = window.value * { minute: 60_000, hour: 3_600_000, day: 86_400_000 }[window.unit]!
  const walks = [...Map.groupBy(events, ({ person }) => person).values()].flatMap((of): Walk[] => {
    const stepsOf = (event: PlainEvent): number[] => steps.flatMap((step, index) => meets(step, event) ? [index] : [])
    const list = of.map((event) => ({ event, at: event.at, steps: stepsOf(event) }))
      .filter((each) => each.steps.length > 0)
      .sort((one, other) => one.at - other.at || one.steps[0]! - other.steps[0]! || bits(one.steps) - bits(other.steps))
    const entries = list.filter((each) => order === 'any_order' || each.steps.includes(0))
    if (entries.length === 0) return []
    const first = Math.min(...entries.map(({ at }) => at))
    const tagsOf = (of: typeof list): string[] => of.map(({ event }) => tagOf(breakdown, event)).sort(byBytes)
    const tags = attribution === 'any' ? [...new Set(tagsOf(list))] : tagsOf(entries.filter(({ at }) => at === first)).slice(0, 1)
    const walk = order === 'any_order' ? walkAnyOrder : walkInOrder
    return [{ tags, took: walk(list, steps.length, windowMs) }]
  })
  const ranks = new Map<string, number>()
  for (const tag of walks.flatMap(({ tags }) => tags)) ranks.set(tag, (ranks.get(tag) ?? 0) + 1)
  const top = largest(ranks, breakdown?.limit ?? 1)
  const shown = (walk: Walk): string[] => [...new Set(walk.tags.map((tag) => top.has(tag) ? tag : 'rest'))]
  const summary = (of: Walk[]): unknown => steps.map((_, step) => {
    const took = of.flatMap((walk) => walk.took[step] ?? []).sort((a, b) => a - b)
    return [took.length, took[Math.ceil(took.length / 2) - 1] ?? null]
  })
  const tags = breakdown === null ? [] : [...new Set(walks.flatMap(shown))]
  const parts = tags.map((tag) => [tag, walks.filter((walk) => shown(walk).includes(tag))] as const)
  return { all: summary(walks), parts: Object.fromEntries(parts.map(([tag, of]) => [tag, summary(of)])) }
}

const bits = (steps: number[]): number => steps.reduce((sum, step) => sum + 2 ** step, 0)

type Listed = { at: number, steps: number[] }[]

/** From each first step, always on to the next event that may be the next step. */
function walkInOrder (list: Listed, count: number, windowMs: number): (number | null)[] {
  const best: ({ at: number, took: number } | null)[] = Array.from({ length: count }, () => null)
  list.forEach((start, from) => {
    if (!start.steps.includes(0)) return
    let step = 0
    for (let index = from; index < list.length && step < count; index++) {
      const each = list[index]!
      if (each.at - start.at > windowMs) break
      if (!each.steps.includes(step)) continue
      const [before, took] = [best[step], each.at - start.at]
      // First reached there, from the latest start.
      const isBetter = before == null || index < before.at || (index === before.at && took <= before.took)
      if (isBetter) best[step] = { at: index, took }
      step++
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
