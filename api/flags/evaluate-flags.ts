import { evaluateFlag, type FlagSet } from './compile/compile-flag-set.ts'
import { type Outcome } from './flag-outcome.ts'
import { type StoredFacts, type Subject } from './subject.ts'

/** The outcomes asked for, in the order of the set, and whether one of them failed. */
export interface Evaluation {
  outcomes: Outcome[]
  /** Some flag could not be computed. */
  hasErrors: boolean
}

/**
 * Evaluates flags for a subject. The filters of a flag were read (`parse/`) and turned into functions (`compile/`) when
 * it was loaded; here they are run: conditions compare properties (`operators/`), and rollouts and variants place
 * the subject on a line (`hash/`).
 *
 * What Postgres knows is read only if an answer depends on it.
 *
 * @param positions   Flags to answer.
 * @param readFacts   Called at most once. Null: they cannot be read; flags that depend on them fail then.
 */
export async function evaluateFlags (
  set: FlagSet, subject: Subject, positions: readonly number[], readFacts: () => Promise<StoredFacts | null>
): Promise<Evaluation> {
  const first = tryFlags(set, subject, positions)
  if (first !== null) return first
  subject.stored = await readFacts()
  return finish(set, subject, positions)
}

/** Evaluates without stored facts; null when an answer depends on them. */
export function tryFlags (set: FlagSet, subject: Subject, positions: readonly number[]): Evaluation | null {
  const outcomes: Outcome[] = []
  let isSure = true
  let hasErrors = false
  for (const position of positions) {
    const outcome = evaluateFlag(set, position, subject)
    if (outcome === undefined) {
      isSure = false
    } else {
      hasErrors ||= outcome.failed
      outcomes.push(outcome)
    }
  }
  return isSure ? { outcomes, hasErrors } : null
}

function finish (set: FlagSet, subject: Subject, positions: readonly number[]): Evaluation {
  const outcomes = positions.map((position) =>
    evaluateFlag(set, position, subject) ?? set.flags[position]!.fail('database_error'))
  return { outcomes, hasErrors: outcomes.some(({ failed }) => failed) }
}
