export interface RetentionRule {
  /** Events, of the installation or of a project, or dead letters. */
  what: 'events' | 'dead_letters'
  /** null: the whole deployment. */
  projectId: number | null
  /** Full days; null: indefinitely. */
  days: number | null
}

/** Projects whose events end at the same day. */
export interface RetentionGroup {
  projectIds: number[]
  /** Events of an earlier day go: `YYYY-MM-DD`. null: none goes. */
  before: string | null
}

const DAY_MS = 86_400_000

/**
 * Groups the projects by the day before which their events go. Today counts as the first day kept, so `days` full days
 * before it are kept as well.
 *
 * @param now  Epoch milliseconds.
 */
export function groupByCutoff (
  rules: readonly RetentionRule[], projectIds: readonly number[], now: number
): RetentionGroup[] {
  const ofEvents = rules.filter(({ what }) => what === 'events')
  const common = ofEvents.find(({ projectId }) => projectId === null)?.days ?? null
  const groups = new Map<number | null, number[]>()
  for (const id of projectIds) {
    const own = ofEvents.find(({ projectId }) => projectId === id)
    const days = own === undefined ? common : own.days
    groups.set(days, [...groups.get(days) ?? [], id])
  }
  return [...groups].map(([days, ids]) => ({
    projectIds: ids, before: days === null ? null : new Date(now - days * DAY_MS).toISOString().slice(0, 10)
  }))
}
