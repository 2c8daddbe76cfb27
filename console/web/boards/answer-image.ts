/** An answer as a picture: the drawing that is on the page, or its table, with what it is about. */
import { showText } from '../format.ts'
import type { AnswerTable, Cell } from './answer-table.ts'

const SVG = 'http://www.w3.org/2000/svg'
const EDGE = 16
const LINE = 24
const LEAST_WIDTH = 420
const BAR = '#2a9d74'
const MAX_ROWS = 60
const MAX_COLUMNS = 16
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
  const body = element('g', {})
  const drawing = box.querySelector<SVGSVGElement>('figure svg')
  const drawn = drawing === null ? addTable(body, table) : addDrawing(body, drawing, box)
  const heading = textAt(EDGE, EDGE + 18, title, { 'font-size': 18, 'font-weight': 600 })
  const lines = facts.map((fact, at) => textAt(EDGE, EDGE + 42 + at * 18, fact, { opacity: 0.75 }))
  const top = EDGE + 42 + lines.length * 18
  body.setAttribute('transform', `translate(0 ${top})`)
  const width = Math.max(drawn.width, LEAST_WIDTH, 10 * title.length) + 2 * EDGE
  const size = { width, height: top + drawn.height + EDGE }
  const svg = element('svg', { ...size, fill: color, 'font-family': 'system-ui, sans-serif', 'font-size': 13 })
  svg.append(element('rect', { ...size, fill: backgroundColor }), heading, ...lines, body)
  const image = new Image()
  image.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`
  await image.decode()
  const canvas = Object.assign(document.createElement('canvas'), { width: size.width * SCALE, height: size.height * SCALE })
  canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height)
  const file = await new Promise<Blob | null>((resolve) => { canvas.toBlob(resolve) })
  if (file === null) throw new Error('the browser drew no picture')
  return file
}

interface Size { width: number, height: number }

function addDrawing (svg: Element, drawing: SVGSVGElement, box: HTMLElement): Size {
  const copy = drawing.cloneNode(true) as SVGSVGElement
  const originals = drawing.querySelectorAll('*')
  copy.querySelectorAll('*').forEach((each, index) => {
    const style = getComputedStyle(originals[index] ?? drawing)
    for (const name of STYLES) each.setAttribute(name, style.getPropertyValue(name))
  })
  let y = LINE / 2
  for (const name of box.querySelectorAll('.toolbar .series:not([aria-pressed="false"])')) {
    svg.append(element('rect', { x: EDGE, y: y - 11, width: 10, height: 12, fill: getComputedStyle(name).borderLeftColor }), textAt(EDGE + 18, y, name.textContent))
    y += LINE
  }
  copy.setAttribute('x', String(EDGE))
  copy.setAttribute('y', String(y))
  svg.append(copy)
  return { width: drawing.width.baseVal.value, height: y + drawing.height.baseVal.value }
}

/** Shares are bars behind their numbers. */
function addTable (svg: Element, { head, titles = head, rows }: AnswerTable): Size {
  const shown: Cell[][] = [
    titles.map((text, column) => ({ text, isNumber: rows[0]?.[column]?.isNumber ?? false })),
    ...rows.slice(0, MAX_ROWS).map((row) => row.map((cell) => ({ ...cell, text: cell.shown ?? cell.text })))
  ]
  let x = EDGE
  for (const [column] of head.slice(0, MAX_COLUMNS).entries()) {
    const width = Math.max(...shown.map((row) => 8 * Math.min(40, row[column]?.text.length ?? 0))) + LINE
    shown.forEach((row, index) => {
      const { text = '', isNumber = false, share = null } = row[column] ?? {}
      const y = (index + 1) * LINE
      if (share != null) svg.append(element('rect', { x, y: y - 16, width: share * (width - 8), height: LINE - 4, fill: BAR, opacity: 0.3 }))
      svg.append(textAt(isNumber ? x + width - 12 : x, y, text, { 'text-anchor': isNumber ? 'end' : 'start', ...index === 0 && { 'font-weight': 600 } }))
    })
    x += width
  }
  if (rows.length > MAX_ROWS || head.length > MAX_COLUMNS) svg.append(textAt(EDGE, (shown.length + 1) * LINE, `${rows.length} rows and ${head.length} columns; the CSV has all.`))
  return { width: x - EDGE, height: (shown.length + 1) * LINE }
}

function element (name: string, attributes: Record<string, string | number>): Element {
  const made = document.createElementNS(SVG, name)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value))
  return made
}

function textAt (x: number, y: number, text: string | null, attributes: Record<string, string | number> = {}): Element {
  const made = element('text', { x, y, ...attributes })
  made.textContent = showText(text ?? '', 200)
  return made
}
