import { createRequire } from 'node:module'
import { PICTURE_FONT } from '../../../engines/charts/draw-picture.ts'

/** DejaVu has no letters of these scripts, and no emoji; fonts of the machine may have them. */
const OTHER_SCRIPTS = /[\u0900-\u0DFF\u2E80-\uDFFF\uF900-\uFAFF\u{10000}-\u{10FFFF}]/u

/** An SVG as PNG, drawn beside the event loop. The engine is loaded with the first picture. */
export async function renderPicture (svg: string): Promise<Buffer> {
  const { renderAsync } = await import('@resvg/resvg-js')
  const font = {
    fontFiles: [createRequire(import.meta.url).resolve('dejavu-fonts-ttf/ttf/DejaVuSans.ttf')],
    loadSystemFonts: OTHER_SCRIPTS.test(svg), defaultFontFamily: PICTURE_FONT
  }
  return (await renderAsync(svg, { font })).asPng()
}
