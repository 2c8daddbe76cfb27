import type { Schema } from '../../api-types.ts'

export type Alert = Schema<'Alert'>

export const CONDITIONS = [
  ['above', 'is above …'], ['below', 'is below …'], ['rises_by', 'rises by … % in a week'], ['falls_by', 'falls by … % in a week']
] as const

/** When an alert fires, or a board is sent. */
export function describeAlert ({ condition, every }: Pick<Alert, 'condition' | 'every'>): string {
  if (condition === null) return every === 'week' ? 'sent each Monday' : 'sent each day'
  const words = new Map(CONDITIONS).get(condition.is)
  return `${words?.replace('…', String(condition.value))}, each ${every}`
}

/** What it is about, as lists of choices and addresses name it: `question 5`. */
export function subjectKey ({ kind, id }: Alert['about']): string {
  return `${kind} ${id}`
}

const SUBJECTS = ['question', 'saved_query', 'board'] as const

/** @returns null for a text that names nothing. */
export function readSubject (key: string | null): Alert['about'] | null {
  const [, kind, id] = /^(question|saved_query|board) (\d{1,9})$/.exec(key ?? '') ?? []
  if (kind === undefined) return null
  return { kind: SUBJECTS.find((each) => each === kind) ?? 'question', id: Number(id) }
}

/** The alert about something else: a board has no condition, and is sent each day or week. */
export function withSubject<A extends Pick<Alert, 'about' | 'condition' | 'every'>> (alert: A, about: Alert['about']): A {
  if ((about.kind === 'board') === (alert.about.kind === 'board')) return { ...alert, about }
  return about.kind === 'board'
    ? { ...alert, about, condition: null, every: 'day' }
    : { ...alert, about, condition: { is: 'below', value: 0 }, every: 'hour' }
}
