import { cityOf, formatterOf } from '../../../engines/figures.ts'
import type { NewNotification } from '../../../platform/notifications.ts'
import { consoleUrl, type ReportContent } from '../notify/write-message.ts'
import type { TimeWindow, WindowEffects } from '../window-task.ts'
import { readReport, type Subject } from './analyst-values.ts'
import { type Alert, type AlertDeps, commitWindow } from './commit-window.ts'
import { drawTile, type TilePicture } from './tile-pictures.ts'

/** Characters of a report that people get. */
const MAX_REPORT = 10_000

/** Sends a board: each tile as a picture, and as text. */
export async function sendReport (deps: AlertDeps, alert: Alert, window: TimeWindow): Promise<WindowEffects> {
  const { id, project } = alert
  const [board] = await deps.sql<{ name: string, tiles: Subject[], timezone: string }[]>`
    SELECT b.name, tiles, timezone FROM boards AS b JOIN projects AS p ON p.id = project_id WHERE project_id = ${project} AND b.id = ${alert.about.id}`
  if (board === undefined) throw new Error(`the project has no board ${alert.about.id}`)
  const { timezone } = board
  const asOf = `as of ${formatterOf(timezone).format(window.to).slice(0, 16)} ${cityOf(timezone)}`
  const report: ReportContent = { tiles: [], pictures: [], url: consoleUrl(deps.publicUrl, project, `boards/${alert.about.id}`) }
  const pictures: TilePicture[] = []
  for (const tile of board.tiles) {
    // One that cannot be answered does not keep the others back.
    const { name, lines, content } = await readReport(deps, tile, alert, window.to.getTime()).catch((error: unknown) =>
      ({ name: `${tile.kind.replace('_', ' ')} ${tile.id}: ${error instanceof Error ? error.message : String(error)}`, lines: [], content: null }))
    const picture = content === null ? null : await drawTile({ title: name, facts: [asOf] }, content, tile.kind === 'saved_query')
    if (picture !== null) pictures.push(picture)
    report.tiles.push([name, ...lines])
    report.pictures.push(picture === null ? null : `${deps.publicUrl}/api/shared_board/pictures/${picture.key}`)
  }
  const through = window.to.toISOString()
  const text = [`${alert.name}: ${board.name}, complete through ${through}`, ...report.tiles.map((lines) => lines.join('\n')), report.url].join('\n\n')
  const about = { alert: { id, name: alert.name }, board: { id: alert.about.id, name: board.name } }
  const data = JSON.stringify({ project_id: project, ...about, complete_through: through, ...report })
  const notification: NewNotification = { type: 'report', data, text: text.slice(0, MAX_REPORT) }
  return commitWindow(alert, { window, value: null, before: null }, () => ({ outcome: 'sent', notification, pictures }))
}
