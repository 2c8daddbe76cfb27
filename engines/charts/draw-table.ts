import { type Drawn, LETTER, tag, write } from './write-svg.ts'

export interface Cell { text: string, isNumber?: boolean, share?: number | null }

const LINE = 24
const GAP = 20
const BAR = '#2a9d74'
const LONGEST = 40
const MAX_ROWS = 22

/** The first row is the head, and does not count. Shares are bars behind their numbers. */
export function drawTable (rows: ReadonlyArray<readonly Cell[]>, maxWidth: number): Drawn {
  const shown = rows.slice(0, MAX_ROWS + 1)
  const columns = rows.reduce((most, { length }) => Math.max(most, length), 0)
  const parts: string[] = []
  let [x, drawn] = [0, 0]
  for (; drawn < columns; drawn++) {
    const width = LETTER * Math.min(LONGEST, Math.max(...shown.map((row) => row[drawn]?.text.length ?? 0))) + GAP
    if (drawn > 0 && x + width > maxWidth + GAP) break
    for (const [index, row] of shown.entries()) {
      const { text = '', isNumber = false, share = null } = row[drawn] ?? {}
      const y = index * LINE
      if (share !== null) parts.push(tag('rect', { x, y, width: share * (width - 8), height: LINE - 4, fill: BAR, 'fill-opacity': 0.3 }))
      const place = { x: isNumber ? x + width - GAP / 2 : x, y: y + 16, 'text-anchor': isNumber ? 'end' : 'start' }
      parts.push(write(text, index === 0 ? { ...place, 'font-weight': 600 } : place, LONGEST))
    }
    x += width
  }
  const isCut = shown.length < rows.length || drawn < columns
  if (isCut) parts.push(write(`… of ${rows.length - 1} rows and ${columns} columns`, { x: 0, y: shown.length * LINE + 16 }))
  return { svg: parts.join(''), height: (shown.length + Number(isCut)) * LINE }
}
