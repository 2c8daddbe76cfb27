/** What ingest enforces for each project: the active versions of its schemas and of its rules. */
import type { Logger } from '../../platform/logger.ts'

/** A row of an active version. */
export interface ActiveVersion {
  project_id: number
  /** What a log line calls it: the event of a schema, the name of a rule. */
  name: string
  version: number
  /** Of the version, which never changes. */
  id: string
  /** The JSON text of the version; null when it was read before. */
  text: string | null
}

/** An active version, and what its text was compiled to. */
export type CompiledVersion<Row extends ActiveVersion, Compiled> = Row & { text: string, compiled: Compiled }

export interface DefinitionKind<Row extends ActiveVersion, Compiled, Definitions> {
  /** Begins the log line about a version that does not compile: `an event schema`. */
  what: string
  /**
   * Reads the active definitions of all projects in one statement, so that they are consistent;
   * each project's in the order that `toDefinitions` needs.
   *
   * @param known  Versions whose text need not be read again.
   */
  read: (known: readonly string[]) => Promise<Row[]>
  /** @throws when this release does not know what the text asks for. */
  compile: (text: string, row: Row) => Compiled
  toDefinitions: (versions: CompiledVersion<Row, Compiled>[]) => Definitions
  /** Whether the compiled versions are the same, in the same use. */
  isSame: (definitions: Definitions, before: Definitions) => boolean
}

/** Compiling goes on after other work when it took this long, in milliseconds. */
const TURN_MS = 5

/**
 * Returns a function that reads active definitions and compiles new ones; projects without active ones are not in the
 * map. Unchanged definitions stay the same object, by which threads know that they have it. A project of which one
 * version does not compile (a newer process has stored what this one does not know) keeps what it had; in a process
 * that has just begun it gets those that compile: most of what must be kept out is better than nothing.
 */
export function createReadActive<Row extends ActiveVersion, Compiled, Definitions> (
  { what, read, compile, toDefinitions, isSame }: DefinitionKind<Row, Compiled, Definitions>, logger: Logger
): () => Promise<ReadonlyMap<number, Definitions>> {
  let known = new Map<string, { text: string, compiled: Compiled }>()
  let active: ReadonlyMap<number, Definitions> = new Map()

  return async function readActive () {
    const rows = await read([...known.keys()])
    const used: typeof known = new Map()
    const next = new Map<number, Definitions>()
    let turn = performance.now()
    for (const [projectId, ofProject] of Map.groupBy(rows, (row) => row.project_id)) {
      const versions: CompiledVersion<Row, Compiled>[] = []
      for (const row of ofProject) {
        try {
          const version = known.get(row.id) ?? { text: row.text!, compiled: compile(row.text!, row) }
          used.set(row.id, version)
          versions.push({ ...row, ...version })
        } catch (err) {
          const { name, version } = row
          logger.error({ err, projectId, name, version }, `${what} does not compile; the project ${active.has(projectId) ? 'keeps the previous ones' : 'runs without it'}`)
        }
        if (performance.now() - turn > TURN_MS) {
          await new Promise((resolve) => setImmediate(resolve))
          turn = performance.now()
        }
      }
      const before = active.get(projectId)
      if (versions.length < ofProject.length && (before !== undefined || versions.length === 0)) {
        if (before !== undefined) next.set(projectId, before)
        continue
      }
      const definitions = toDefinitions(versions)
      next.set(projectId, before !== undefined && isSame(definitions, before) ? before : definitions)
    }
    known = used
    active = next
    return active
  }
}
