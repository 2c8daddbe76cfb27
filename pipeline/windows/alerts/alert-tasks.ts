/**
 * Alerts and reports at closed windows. An alert is evaluated once for each window, in order; it fires with the first
 * window that meets its condition and is resolved with the first that does not. A report says what a board shows. Both
 * are queued for their targets in the transaction that records the window.
 */
import { type AlertCondition, comparesWeeks, describeCondition, outcomeOf, WINDOW_MS, type WindowValue } from '../../../engines/questions/alert-windows.ts'
import { selectLimits } from '../../../platform/directory/read-keys.ts'
import type { NewNotification } from '../../../platform/notifications.ts'
import { type Limited, maySql } from '../../../schema/roles.ts'
import { consoleUrl } from '../notify/write-message.ts'
import type { TimeWindow, WindowEffects, WindowTask } from '../window-task.ts'
import { readValue } from './analyst-values.ts'
import { type Alert, type AlertDeps, commitWindow } from './commit-window.ts'
import { sendReport } from './send-report.ts'

/** The tasks of enabled alerts. What was closed before the last change of an alert is not evaluated. */
export async function listAlertTasks (deps: AlertDeps, subject: string | null = null): Promise<WindowTask[]> {
  const stored = await deps.sql<(Alert & Pick<Limited, 'limits'>)[]>`
    SELECT id, project_id AS project, name, about, every, condition, targets, updated_at AS "updatedAt",
      may_run_sql AND NOT EXISTS (SELECT FROM users AS u WHERE u.id = ANY(made_by_users) AND u.disabled_at IS NOT NULL) AS "mayRunSql",
      ${selectLimits(deps.sql, deps.sql`made_by_users`)}
    FROM alerts WHERE enabled AND (${subject}::text IS NULL OR ${subject} = 'alert:' || id)`
  return stored.map(({ limits, ...row }) => {
    const alert = { ...row, mayRunSql: row.mayRunSql && maySql({ scopes: ['*'], projectIds: null, limits }) }
    const { id, every: size, condition, updatedAt: since } = alert
    return {
      subject: `alert:${id}`, size, since,
      run: async (window) => condition === null
        ? await sendReport(deps, alert, window)
        : await evaluate(deps, { ...alert, condition }, window)
    }
  })
}

type Conditional = Alert & { condition: AlertCondition }

async function evaluate (deps: AlertDeps, alert: Conditional, window: TimeWindow): Promise<WindowEffects> {
  const { condition } = alert
  const size = alert.every === 'hour' ? 'hour' : 'day'
  const [from, to] = [window.from.getTime(), window.to.getTime()]
  const read = async (backMs: number): Promise<number | null> =>
    await readValue(deps, alert.about, alert, { from: from - backMs, to: to - backMs, size })
  const values = { value: await read(0), before: comparesWeeks(condition) ? await read(WINDOW_MS.week) : null }
  return commitWindow(alert, { window, ...values }, (wasFiring) => {
    const outcome = outcomeOf(condition, wasFiring, values)
    return outcome === null ? null : { outcome, notification: describe(deps, alert, { window, ...values, outcome }) }
  })
}

function describe (
  { publicUrl }: AlertDeps, { id, name, project, about, condition }: Conditional,
  { window, value, before, outcome }: WindowValue & { window: TimeWindow, outcome: 'fired' | 'resolved' }
): NewNotification {
  const [from, to] = [window.from.toISOString(), window.to.toISOString()]
  const url = consoleUrl(publicUrl, project, about.kind === 'question' ? `questions/${about.id}` : `sql?saved=${about.id}`)
  const compared = before === null ? '' : `, a week before ${before}`
  return {
    type: `alert.${outcome}`,
    data: JSON.stringify({
      project_id: project, alert: { id, name }, about, condition, value, before, window: { from, to }, url
    }),
    text: `${outcome === 'fired' ? 'Alert' : 'Resolved'}: ${name.replaceAll(/\s+/g, ' ')}\nvalue ${value}${compared} (fires when it is ${describeCondition(condition)})\nreceived from ${from} to ${to}\n${url}`
  }
}
