import { MillraceError } from '../engines/errors.ts'
import type { Sql, TransactionSql } from './postgres/connect-postgres.ts'

/** Subjects of retention: events, of the installation or of a project, and dead letters. */
export type RetentionSubject = 'events' | 'dead_letters'

export interface RetentionRule {
  what: RetentionSubject
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

/** All rules; what has none is kept indefinitely. */
export async function listRetention (sql: Sql | TransactionSql): Promise<RetentionRule[]> {
  return await sql<RetentionRule[]>`
    SELECT what, project_id AS "projectId", days FROM retention ORDER BY what DESC, project_id NULLS FIRST`
}

/**
 * Sets or replaces a rule. It takes effect with the next round of a pipeline process, within an hour.
 *
 * @throws {MillraceError} `MILLRACE_PROJECT_NOT_FOUND`.
 */
export async function setRetention (sql: Sql, { what, projectId, days }: RetentionRule): Promise<void> {
  if (projectId !== null && (await sql`SELECT 1 FROM projects WHERE id = ${projectId}`).length === 0) {
    throw new MillraceError('MILLRACE_PROJECT_NOT_FOUND', `there is no project ${projectId}`)
  }
  await sql`
    INSERT INTO retention (what, project_id, days) VALUES (${what}, ${projectId}, ${days})
    ON CONFLICT (what, project_id) DO UPDATE SET days = excluded.days, updated_at = now()`
}

/** Removes a rule: a project follows the deployment again. Returns whether there was one. */
export async function clearRetention (sql: Sql, { what, projectId }: Omit<RetentionRule, 'days'>): Promise<boolean> {
  const removed = await sql`DELETE FROM retention WHERE what = ${what} AND project_id IS NOT DISTINCT FROM ${projectId}`
  return removed.count > 0
}

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
