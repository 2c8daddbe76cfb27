/** How many names of events and properties of a project are described, in each thread that takes its events. */

/** New ones of a project and day; beyond, events are stored and not described. */
export interface NameLimits {
  events: number
  properties: number
  /** Properties of an event, summed over the events. */
  pairs: number
}

/** What the definitions of a project have: described whatever the limits say. */
export interface KnownNames {
  /** Names of the properties of each event. */
  events: ReadonlyMap<string, ReadonlySet<string>>
  /** `p` and the name of a property of persons; `g`, the type, the separator and the name of one of groups. */
  others: ReadonlySet<string>
}

/** An event of a project that is described, with the entries of `property_types` that are. */
export interface DescribedEvent {
  readonly projectId: number
  readonly event: string
  readonly entries: Set<string>
}

interface ProjectNames {
  events: Map<string, DescribedEvent>
  properties: Set<string>
  known: KnownNames | null
  /** The day on which the new ones below were met, in days since 1970. */
  day: number
  added: NameLimits
}

const DAY_MS = 86_400_000

/** How often the known names of a project are asked for while it is beyond its limits, in milliseconds. */
const ASK_AGAIN_MS = 3_600_000

/** Entries that are remembered, known ones among them; then the memory starts over. 50 MB when all are different. */
const MAX_ENTRIES = 500_000

/**
 * Decides which names are described. What was described stays so, and what the definitions have is always described:
 * a flood of new names crowds out none of them. Only new ones count, by project and day.
 *
 * Each thread counts for itself, so a day may bring some times the limits; the roll-up counts for all of them.
 */
export class DescribedNames {
  readonly #limits: NameLimits
  readonly #now: () => number
  readonly #askKnown: (projectId: number) => void
  #projects = new Map<number, ProjectNames>()
  #entries = 0
  /** When known names were asked for, by project, epoch ms. Not forgotten, or Postgres would be asked in a loop. */
  readonly #askedAt = new Map<number, number>()

  /** @param options.askKnown  Called when a project is beyond its limits, once an hour; `learn` takes the answer. */
  constructor (
    limits: NameLimits,
    { now, askKnown = () => {} }: { now: () => number, askKnown?: (projectId: number) => void }
  ) {
    this.#limits = limits
    this.#now = now
    this.#askKnown = askKnown
  }

  /** So much is remembered that it is time to `forget`. */
  get isFull (): boolean {
    return this.#entries > MAX_ENTRIES
  }

  forget (): void {
    this.#projects = new Map()
    this.#entries = 0
  }

  /** Takes the names of a project that its definitions have. */
  learn (projectId: number, known: KnownNames): void {
    this.#projectOf(projectId).known = known
    for (const properties of known.events.values()) this.#entries += properties.size
  }

  /** @returns null when the event is beyond the limits. */
  findEvent (projectId: number, event: string): DescribedEvent | null {
    const project = this.#projectOf(projectId)
    let found = project.events.get(event)
    if (found !== undefined) return found
    if (project.known?.events.has(event) !== true) {
      if (!this.#hasRoom(projectId, project, 'events')) return null
      project.added.events++
    }
    found = { projectId, event, entries: new Set() }
    project.events.set(event, found)
    this.#entries++
    return found
  }

  /** @returns those of the entries that are within the limits: the same list when all are. */
  describe (event: DescribedEvent, entries: string[]): string[] {
    const project = this.#projectOf(event.projectId)
    const described = entries.filter((entry) => event.entries.has(entry) || this.#add(project, event, entry))
    return described.length === entries.length ? entries : described
  }

  #add (project: ProjectNames, event: DescribedEvent, entry: string): boolean {
    if (!isKnown(project.known, event.event, entry)) {
      if (!this.#hasRoom(event.projectId, project, 'pairs')) return false
      if (!project.properties.has(entry)) {
        if (!this.#hasRoom(event.projectId, project, 'properties')) return false
        project.properties.add(entry)
        project.added.properties++
      }
      project.added.pairs++
    }
    event.entries.add(entry)
    this.#entries++
    return true
  }

  #hasRoom (projectId: number, project: ProjectNames, what: keyof NameLimits): boolean {
    const now = this.#now()
    const day = Math.floor(now / DAY_MS)
    if (day !== project.day) {
      project.day = day
      project.added = { events: 0, properties: 0, pairs: 0 }
    }
    if (project.added[what] < this.#limits[what]) return true
    if (now - (this.#askedAt.get(projectId) ?? 0) >= ASK_AGAIN_MS) {
      this.#askedAt.set(projectId, now)
      this.#askKnown(projectId)
    }
    return false
  }

  #projectOf (projectId: number): ProjectNames {
    let project = this.#projects.get(projectId)
    if (project === undefined) {
      project = {
        events: new Map(), properties: new Set(), known: null, day: 0,
        added: { events: 0, properties: 0, pairs: 0 }
      }
      this.#projects.set(projectId, project)
    }
    return project
  }
}

/** An entry is the kind, the code of a type, and the name. Types do not count: there are five. */
function isKnown (known: KnownNames | null, event: string, entry: string): boolean {
  if (known === null) return false
  const kind = entry.slice(0, 1)
  const name = entry.slice(2)
  return kind === 'e' ? known.events.get(event)?.has(name) === true : known.others.has(kind + name)
}
