import { drawPicture } from '../../../engines/charts/draw-picture.ts'
import type { PictureContent } from '../../../engines/charts/picture-content.ts'
import { cityOf, formatterOf } from '../../../engines/figures.ts'
import { consoleUrl, type NewNotification } from '../../../platform/notifications.ts'
import { hashPersonalKey, mintKey } from '../../../schema/key-text.ts'
import type { TimeWindow, WindowEffects } from '../window-task.ts'
import { readReport, type Subject } from './analyst-values.ts'
import { type Alert, type AlertDeps, commitWindow, type ReportPicture } from './commit-window.ts'
import { renderPicture } from './render-picture.ts'

/** Characters of a report that people get. */
const MAX_REPORT = 10_000

/** What `data` of a report has for all kinds of targets. */
export interface ReportContent {
  /** Lines of each tile of the board; the first is its name. */
  tiles: string[][]
  /** Address of the picture of each tile; null: it has none. */
  pictures: Array<string | null>
  /** Of the board in the console. */
  url: string
}

/** Null where it cannot be drawn; its text has the same. */
async function drawTile (about: { title: string, asOf: string }, content: PictureContent): Promise<Buffer | null> {
  try {
    return await renderPicture(drawPicture(about, content))
  } catch {
    return null
  }
}

/** Sends a board: each tile as a picture, and as text. */
export async function sendReport (deps: AlertDeps, alert: Alert, window: TimeWindow): Promise<WindowEffects> {
  const { id, project } = alert
  const [board] = await deps.sql<{ name: string, tiles: Subject[], timezone: string }[]>`
    SELECT b.name, tiles, timezone FROM boards AS b JOIN projects AS p ON p.id = project_id WHERE project_id = ${project} AND b.id = ${alert.about.id}`
  if (board === undefined) throw new Error(`the project has no board ${alert.about.id}`)
  const { timezone } = board
  const asOf = `as of ${formatterOf(timezone).format(window.to).slice(0, 16)} ${cityOf(timezone)}`
  const report: ReportContent = { tiles: [], pictures: [], url: consoleUrl(deps.publicUrl, project, `boards/${alert.about.id}`) }
  const pictures: ReportPicture[] = []
  for (const tile of board.tiles) {
    // One that cannot be answered does not keep the others back.
    const { name, lines, content } = await readReport(deps, tile, alert, window.to.getTime()).catch((error: unknown) =>
      ({ name: `${tile.kind.replace('_', ' ')} ${tile.id}: ${error instanceof Error ? error.message : String(error)}`, lines: [], content: null }))
    const png = content === null ? null : await drawTile({ title: name, asOf }, content)
    const key = mintKey('phl_')
    if (png !== null) pictures.push({ key_hash: hashPersonalKey(key), shows_sql: tile.kind === 'saved_query', png })
    report.tiles.push([name, ...lines])
    report.pictures.push(png === null ? null : `${deps.publicUrl}/api/shared_board/pictures/${key}`)
  }
  const through = window.to.toISOString()
  const text = [`${alert.name}: ${board.name}, complete through ${through}`, ...report.tiles.map((lines) => lines.join('\n')), report.url].join('\n\n')
  const about = { alert: { id, name: alert.name }, board: { id: alert.about.id, name: board.name } }
  const data = JSON.stringify({ project_id: project, ...about, complete_through: through, ...report })
  const notification: NewNotification = { type: 'report', data, text: text.slice(0, MAX_REPORT) }
  return commitWindow(alert, { window, value: null, before: null }, () => ({ outcome: 'sent', notification, pictures }))
}
