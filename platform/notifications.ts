/** The queue of what is sent to targets: rows of Postgres, in order for each target (`pipeline/windows/notify/`). */
import type { Sql, TransactionSql } from './postgres/connect-postgres.ts'

export interface NewNotification {
  type: 'test' | 'event' | 'events' | 'alert.fired' | 'alert.resolved' | 'report'
  /** Of a webhook: JSON, which is sent as it is. */
  data: string
  /** The same for people. */
  text: string
}

/** Appends to the queue of a target. @returns the sequence of the last one; null: there is no such target. */
export async function queueNotifications (
  sql: Sql | TransactionSql, targetId: number, notifications: readonly NewNotification[]
): Promise<string | null> {
  const [queued] = await sql<{ last: string }[]>`
    WITH target AS (
      UPDATE targets SET sequence = sequence + ${notifications.length} WHERE id = ${targetId} RETURNING sequence
    ), queued AS (
      INSERT INTO notifications (target_id, sequence, type, data, text)
      SELECT ${targetId}, target.sequence - ${notifications.length} + row.at, row.type, row.data, row.text
      FROM target, unnest(${notifications.map(({ type }) => type)}::text[], ${notifications.map(({ data }) => data)}::text[],
        ${notifications.map(({ text }) => text)}::text[]) WITH ORDINALITY AS row (type, data, text, at)
    )
    SELECT sequence::text AS last FROM target`
  return queued?.last ?? null
}

/** What a dead letter of stage `notify` has in its body. */
export interface NotificationLetter extends NewNotification {
  target_id: number
  id: string
}

/**
 * Queues a notification again that became a dead letter, with the id that it had: a replay that is repeated while it
 * waits changes nothing.
 *
 * @returns false when its target is gone.
 */
export async function requeueNotification (sql: Sql, letter: NotificationLetter): Promise<boolean> {
  return await sql.begin(async (transaction) => {
    const { target_id: target, id } = letter
    const [waiting] = await transaction`SELECT 1 FROM notifications WHERE target_id = ${target} AND id = ${id}`
    if (waiting !== undefined) return true
    const sequence = await queueNotifications(transaction, target, [letter])
    await transaction`UPDATE notifications SET id = ${id} WHERE target_id = ${target} AND sequence = ${sequence}`
    return sequence !== null
  })
}
