/** What a window of an alert leaves in Postgres, at once: its record, whether the alert fires, and what is sent. */
import { type AlertCondition, type AlertInterval, WINDOW_MS, type WindowValue } from '../../../engines/questions/alert-windows.ts'
import { type NewNotification, queueNotifications } from '../../../platform/notifications.ts'
import type { TimeWindow, WindowEffects } from '../window-task.ts'
import type { AnalystDeps, Asker, Subject } from './analyst-values.ts'
import { storePictures, type TilePicture } from './tile-pictures.ts'

export interface AlertDeps extends AnalystDeps {
  /** Base of links. */
  publicUrl: string
}

export interface Alert extends Asker {
  id: number
  name: string
  about: Subject
  every: AlertInterval
  condition: AlertCondition | null
  targets: number[]
}

const HISTORY_MS = 90 * WINDOW_MS.day

/** What changes with a window, and what is said about it. */
export interface WindowChange {
  outcome: 'fired' | 'resolved' | 'sent'
  notification: NewNotification
  pictures?: readonly TilePicture[]
}

/** @param decide  Null: nothing changes. */
export function commitWindow (
  { id, targets }: Alert, { window: { from, to }, value, before }: WindowValue & { window: TimeWindow },
  decide: (wasFiring: boolean) => WindowChange | null
): WindowEffects {
  return async (transaction) => {
    const [stored] = await transaction<{ wasFiring: boolean }[]>`SELECT is_firing AS "wasFiring" FROM alerts WHERE id = ${id} FOR UPDATE`
    // Deleted meanwhile.
    if (stored === undefined) return
    const change = decide(stored.wasFiring)
    const row = { alert_id: id, window_from: from, window_to: to, value, before, outcome: change?.outcome ?? null }
    await transaction`INSERT INTO alert_windows ${transaction(row)} ON CONFLICT DO NOTHING`
    await transaction`DELETE FROM alert_windows WHERE alert_id = ${id} AND window_to < ${new Date(to.getTime() - HISTORY_MS)}`
    if (change === null) return
    await transaction`UPDATE alerts SET is_firing = ${change.outcome === 'fired'} WHERE id = ${id}`
    await storePictures(transaction, id, change.pictures ?? [])
    for (const target of targets.toSorted((one, other) => one - other)) {
      await queueNotifications(transaction, target, [change.notification])
    }
  }
}
