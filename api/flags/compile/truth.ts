import { type Subject } from '../subject.ts'

/** Answer of a filter. UNSURE means that it depends on something stored that has not been read. */
export type Truth = typeof NO | typeof YES | typeof UNSURE
export const NO = 0
export const YES = 1
export const UNSURE = 2

/** A compiled filter of a condition, a cohort or a whole group of them. */
export type Filter = (subject: Subject) => Truth

/** All must pass; one that surely does not decides, whatever the unsure ones would say. */
export function allOf (filters: readonly Filter[]): Filter {
  const [only] = filters
  if (filters.length === 1 && only !== undefined) return only
  return (subject) => {
    let result: Truth = YES
    for (const filter of filters) {
      const truth = filter(subject)
      if (truth === NO) return NO
      if (truth === UNSURE) result = UNSURE
    }
    return result
  }
}

/** One must pass; one that surely does decides. */
export function anyOf (filters: readonly Filter[]): Filter {
  return (subject) => {
    let result: Truth = NO
    for (const filter of filters) {
      const truth = filter(subject)
      if (truth === YES) return YES
      if (truth === UNSURE) result = UNSURE
    }
    return result
  }
}

export function not (filter: Filter): Filter {
  return (subject) => {
    const truth = filter(subject)
    return truth === UNSURE ? UNSURE : truth === YES ? NO : YES
  }
}
