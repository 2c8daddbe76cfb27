import { type Sql } from '../postgres/connect-postgres.ts'

/** A deletion of a person, begun and perhaps not finished. */
export interface PersonDeletion {
  id: number
  projectId: number
  /** The person's uuid, and those computed from its distinct ids. */
  personUuids: string[]
  withEvents: boolean
  requestedAt: Date
  version: number
  outboxId: number
  doneAt: Date | null
}

/** The columns of a `PersonDeletion`, for a query on `person_deletions`. */
export function selectDeletion (sql: Sql) {
  return sql`id, project_id AS "projectId", person_uuids AS "personUuids", with_events AS "withEvents",
    requested_at AS "requestedAt", version, outbox_id AS "outboxId", done_at AS "doneAt"`
}
