/** Pictures of the tiles of reports: drawn beside the event loop, stored by the hash of a key, and read by the key. */
import { createRequire } from 'node:module'
import { drawPicture, PICTURE_FONT } from '../../../engines/charts/draw-picture.ts'
import type { PictureContent } from '../../../engines/charts/picture-content.ts'
import type { Sql, TransactionSql } from '../../../platform/postgres/connect-postgres.ts'
import { hashPersonalKey, mintKey } from '../../../schema/key-text.ts'
import type { ReadPicture } from '../notify/write-message.ts'

export interface TilePicture {
  key: string
  showsSql: boolean
  png: Buffer
}

/** Null where it cannot be drawn; its text has the same. */
export async function drawTile (
  about: { title: string, facts: string[] }, content: PictureContent, showsSql: boolean
): Promise<TilePicture | null> {
  try {
    return { key: mintKey('phl_'), showsSql, png: await renderPicture(drawPicture(about, content)) }
  } catch {
    return null
  }
}

/** DejaVu has no letters of these scripts, and no emoji; fonts of the machine may have them. */
const OTHER_SCRIPTS = /[\u0900-\u0DFF\u2E80-\uDFFF\uF900-\uFAFF\u{10000}-\u{10FFFF}]/u

/** An SVG as PNG. The engine is loaded with the first picture. */
export async function renderPicture (svg: string): Promise<Buffer> {
  const { renderAsync } = await import('@resvg/resvg-js')
  const font = {
    fontFiles: [createRequire(import.meta.url).resolve('dejavu-fonts-ttf/ttf/DejaVuSans.ttf')],
    loadSystemFonts: OTHER_SCRIPTS.test(svg), defaultFontFamily: PICTURE_FONT
  }
  return (await renderAsync(svg, { font })).asPng()
}

/** Removes those of the alert that are older than 30 days. */
export async function storePictures (
  transaction: TransactionSql, alertId: number, pictures: readonly TilePicture[]
): Promise<void> {
  for (const { key, showsSql, png } of pictures) {
    await transaction`INSERT INTO report_pictures ${transaction({ alert_id: alertId, key_hash: hashPersonalKey(key), shows_sql: showsSql, png })}`
  }
  await transaction`DELETE FROM report_pictures WHERE alert_id = ${alertId} AND created_at < now() - interval '30 days'`
}

export function createReadPicture (sql: Sql): ReadPicture {
  return async (key) => {
    const [found] = await sql<{ png: Buffer }[]>`SELECT png FROM report_pictures WHERE key_hash = ${hashPersonalKey(key)}`
    return found?.png ?? null
  }
}
