import { byBytes, largest, meets, type PlainEvent, type PlainQuestion } from './plain-question.ts'

/** People and number of paths, of all of them and of each edge. */
export function plainPaths ({ paths }: PlainQuestion, events: PlainEvent[]): unknown {
  const { anchor, isBackward, steps, names, nodes, minPeople, gap } = paths
  const gapMs = gap.value * { minute: 60_000, hour: 3_600_000, day: 86_400_000 }[gap.unit]!
  const isAnchor = (event: PlainEvent): boolean => meets(anchor, event)
  const own = names === null ? mostCommon(events, isAnchor, nodes) : new Set(names)
  if (anchor.event != null) own.add(anchor.event)
  const nameOf = ({ event }: PlainEvent): string => own.has(event) ? event : ''
  const found = new Map<string, { people: Set<string>, paths: number }>()
  const add = (person: string, ...edge: (number | string)[]): void => {
    const key = JSON.stringify(edge)
    const at = found.get(key) ?? { people: new Set(), paths: 0 }
    found.set(key, { people: at.people.add(person), paths: at.paths + 1 })
  }
  const counted = events.filter(({ event }) => names === null || own.has(event))
  for (const [person, of] of Map.groupBy(counted, ({ person }) => person)) {
    const list = [...of].sort((one, other) =>
      one.at - other.at || byBytes(nameOf(one), nameOf(other)) || Number(isAnchor(one)) - Number(isAnchor(other)))
    if (isBackward) list.reverse()
    let before: PlainEvent | undefined
    let path: string[] = []
    for (const event of list) {
      if (before !== undefined && Math.abs(event.at - before.at) > gapMs) path = []
      before = event
      const name = nameOf(event)
      const last = path.at(-1)
      if (last === undefined ? !isAnchor(event) : last === name || path.length > steps) continue
      path.push(name)
      if (last === undefined) add(person)
      else add(person, path.length - 1, ...isBackward ? [name, last] : [last, name])
    }
  }
  const all = found.get('[]')
  found.delete('[]')
  const shown = [...found].filter(([, { people }]) => people.size >= minPeople)
  return {
    all: [all?.people.size ?? 0, all?.paths ?? 0],
    parts: Object.fromEntries(shown.map(([key, { people, paths }]) => [key, [people.size, paths]]))
  }
}

/** The names of most people who are in a path. */
function mostCommon (events: PlainEvent[], isAnchor: (event: PlainEvent) => boolean, count: number): Set<string> {
  const people = new Set(events.filter(isAnchor).map(({ person }) => person))
  const theirs = Map.groupBy(events.filter(({ person }) => people.has(person)), ({ event }) => event)
  return largest(new Map([...theirs].map(([name, of]) => [name, new Set(of.map(({ person }) => person)).size])), count)
}
