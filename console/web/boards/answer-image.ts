/** An answer as a picture: the drawing that is on the page, or its table, with what it is about. */
import { drawTable } from '../../../engines/charts/draw-table.ts'
import { type Drawn, tag, write } from '../../../engines/charts/write-svg.ts'
import type { AnswerTable } from './answer-table.ts'

const SVG = 'http://www.w3.org/2000/svg'
const EDGE = 16
const LINE = 24
const LEAST_WIDTH = 420
const MAX_ROWS = 60
const MAX_WIDTH = 2000
/** Pixels of the file for each of the page, so that it is sharp on paper. */
const SCALE = 2
/** What a drawing gets from the stylesheet, which a file does not have. */
const STYLES = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linejoin', 'font-size', 'opacity']

interface Pictured {
  title: string
  /** Lines below the title. */
  facts: readonly string[]
  /** Around the drawing and the names of its lines; what has no drawing is a table. */
  box: HTMLElement
  table: AnswerTable
}

/** @throws when the browser does not draw it. */
export async function drawPng ({ title, facts, box, table }: Pictured): Promise<Blob> {
  const { color, backgroundColor } = getComputedStyle(document.body)
  const drawing = box.querySelector<SVGSVGElement>('figure svg')
  const drawn = drawing === null ? drawRows(table) : copyDrawing(drawing, box)
  const top = EDGE + 42 + facts.length * 18
  const width = Math.max(drawn.width, LEAST_WIDTH, 10 * title.length) + 2 * EDGE
  const size = { width, height: top + drawn.height + EDGE }
  const svg = tag('svg', { xmlns: SVG, ...size, fill: color, 'font-family': 'system-ui, sans-serif', 'font-size': 13 },
    tag('rect', { ...size, fill: backgroundColor }) + write(title, { x: EDGE, y: EDGE + 18, 'font-size': 18, 'font-weight': 600 }) +
    facts.map((fact, at) => write(fact, { x: EDGE, y: EDGE + 42 + at * 18, opacity: 0.75 })).join('') +
    tag('g', { transform: `translate(${EDGE} ${top})` }, drawn.svg))
  const image = new Image()
  image.src = `data:image/svg+xml,${encodeURIComponent(svg)}`
  await image.decode()
  const canvas = Object.assign(document.createElement('canvas'), { width: size.width * SCALE, height: size.height * SCALE })
  canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height)
  const file = await new Promise<Blob | null>((resolve) => { canvas.toBlob(resolve) })
  if (file === null) throw new Error('the browser drew no picture')
  return file
}

function copyDrawing (drawing: SVGSVGElement, box: HTMLElement): Drawn {
  const copy = drawing.cloneNode(true) as SVGSVGElement
  const originals = drawing.querySelectorAll('*')
  copy.querySelectorAll('*').forEach((each, index) => {
    const style = getComputedStyle(originals[index] ?? drawing)
    for (const name of STYLES) each.setAttribute(name, style.getPropertyValue(name))
  })
  const names = [...box.querySelectorAll('.toolbar .series:not([aria-pressed="false"])')]
  const legend = names.map((name, at) =>
    tag('rect', { x: 0, y: LINE * at + 1, width: 10, height: 12, fill: getComputedStyle(name).borderLeftColor }) +
    write(name.textContent ?? '', { x: 18, y: LINE * at + 12 }))
  const top = LINE / 2 + LINE * names.length
  copy.setAttribute('y', String(top))
  return {
    svg: legend.join('') + new XMLSerializer().serializeToString(copy),
    width: drawing.width.baseVal.value, height: top + drawing.height.baseVal.value
  }
}

function drawRows ({ head, titles = head, rows }: AnswerTable): Drawn {
  const named = titles.map((text, column) => ({ text, isNumber: rows[0]?.[column]?.isNumber ?? false }))
  const shown = rows.map((row) => row.map((cell) => ({ ...cell, text: cell.shown ?? cell.text })))
  return drawTable([named, ...shown], { maxRows: MAX_ROWS, maxWidth: MAX_WIDTH })
}
