import { consoleUrl, type NewNotification } from '../../../platform/notifications.ts'
import type { TimeWindow, WindowEffects } from '../window-task.ts'
import { readReport, type Subject } from './analyst-values.ts'
import { type Alert, type AlertDeps, commitWindow } from './commit-window.ts'

/** Characters of a report that people get. */
const MAX_REPORT = 10_000

/** Sends a board as text. */
export async function sendReport (deps: AlertDeps, alert: Alert, window: TimeWindow): Promise<WindowEffects> {
  const { id, project } = alert
  const [board] = await deps.sql<{ name: string, tiles: Subject[] }[]>`SELECT name, tiles FROM boards WHERE project_id = ${project} AND id = ${alert.about.id}`
  if (board === undefined) throw new Error(`the project has no board ${alert.about.id}`)
  const tiles: string[][] = []
  for (const tile of board.tiles) {
    // One that cannot be answered does not keep the others back.
    tiles.push(await readReport(deps, tile, alert, window.to.getTime())
      .catch((error: unknown) => [`${tile.kind.replace('_', ' ')} ${tile.id}: ${error instanceof Error ? error.message : String(error)}`]))
  }
  const url = consoleUrl(deps.publicUrl, project, `boards/${alert.about.id}`)
  const through = window.to.toISOString()
  const text = [`${alert.name}: ${board.name}, complete through ${through}`, ...tiles.map((lines) => lines.join('\n')), url].join('\n\n')
  const about = { alert: { id, name: alert.name }, board: { id: alert.about.id, name: board.name } }
  const data = JSON.stringify({ project_id: project, ...about, complete_through: through, tiles, url })
  const notification: NewNotification = { type: 'report', data, text: text.slice(0, MAX_REPORT) }
  return commitWindow(alert, { window, value: null, before: null }, () => ({ outcome: 'sent', notification }))
}
