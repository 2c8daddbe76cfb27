/** Lays out rows of figures and sentences for a terminal: nothing wraps or scrolls, and what matters most stays. */

/** What a row shows: one text, or a shorter one for narrow terminals as well. */
export type Cell = string | readonly [wide: string, narrow: string]

/** A named thing, how it is, and its figures. */
export interface Row {
  name: string
  /** One word; rows that are neither `ok` nor empty stay the longest. */
  state: string
  cells: readonly Cell[]
}

/** A sentence is broken between its words, and stays; an empty one goes first. */
export type Line = Row | string

/** Room of a terminal, in characters. `Infinity` where nothing limits it, as in a file. */
export interface Screen {
  columns: number
  rows: number
}

export const NO_SCREEN: Screen = { columns: Infinity, rows: Infinity }

interface Layout {
  name: number
  state: number
  cell: (cell: Cell) => string
}

const WIDE: Layout = { name: 16, state: 10, cell: (cell) => `${wide(cell).padEnd(25)} ` }
/** Beside each other instead of below each other. */
const NARROW: Layout = { name: 13, state: 10, cell: (cell) => `${narrow(cell)}  ` }

/** The room of the terminal that a stream writes to. */
export function readScreen (stream: object): Screen {
  const { isTTY, columns, rows } = stream as { isTTY?: boolean, columns?: number, rows?: number }
  // A terminal of unknown size says 0.
  return isTTY === true ? { columns: columns || Infinity, rows: rows || Infinity } : NO_SCREEN
}

/**
 * Draws the lines, each with its end.
 *
 * @param leftOutFirst  Names of rows in the order in which they go when there is no room for all; those that are not
 *   named go after them, the last first.
 */
export function fitScreen (lines: readonly Line[], { columns, rows }: Screen, leftOutFirst: readonly string[]): string {
  // Where rows are scrolled through, a figure more is better than a row less.
  const width = rows === Infinity ? Infinity : columns
  const layout = lines.every((line) => typeof line === 'string' || drawRow(line, WIDE).length <= columns) ? WIDE : NARROW
  const drawn = lines.map((line) => ({
    line, texts: typeof line === 'string' ? breakSentence(line, width) : [cut(drawRow(line, layout), width)]
  }))
  // The cursor takes the last row of the terminal.
  const texts = (shown: typeof drawn): string[] => shown.flatMap((each) => each.texts)
  if (texts(drawn).length < rows) return toText(texts(drawn))

  const goes = new Set<Line>()
  const kept = (): typeof drawn => drawn.filter(({ line }) => line !== '' && !goes.has(line))
  // One more for the line that says so.
  for (const row of inOrderOfLeaving(lines, leftOutFirst)) {
    if (texts(kept()).length + (goes.size === 0 ? 0 : 1) < rows) break
    goes.add(row)
  }
  const [head, ...rest] = kept()
  const note = goes.size === 0 ? [] : [cut(`... ${goes.size} more lines in a larger window`, columns)]
  const tail = rest.map(({ line }) => typeof line === 'string').lastIndexOf(false) + 1
  const fitted = [...head?.texts ?? [], ...texts(rest.slice(0, tail)), ...note, ...texts(rest.slice(tail))]
  // Of sentences alone the last ones stay, below the first.
  return toText([...fitted.slice(0, 1), ...fitted.slice(1).slice(-Math.max(rows - 2, 1))])
}

function inOrderOfLeaving (lines: readonly Line[], leftOutFirst: readonly string[]): Row[] {
  const rank = ({ name, state }: Row): number => {
    const place = leftOutFirst.indexOf(name)
    return (isOrdinary(state) ? 0 : 1000) + (place === -1 ? leftOutFirst.length : place)
  }
  return lines.filter((line) => typeof line !== 'string').toReversed().toSorted((one, other) => rank(one) - rank(other))
}

/** Of several processes: `ok x3`. */
function isOrdinary (state: string): boolean {
  return /^(ok\b|$)/.test(state)
}

function drawRow ({ name, state, cells }: Row, layout: Layout): string {
  return `${name.padEnd(layout.name - 1)} ${state.padEnd(layout.state)}${cells.map(layout.cell).join('')}`.trimEnd()
}

function wide (cell: Cell): string {
  return typeof cell === 'string' ? cell : cell[0]
}

function narrow (cell: Cell): string {
  return typeof cell === 'string' ? cell : cell[1]
}

function cut (text: string, columns: number): string {
  return text.length <= columns ? text : `${text.slice(0, Math.max(columns - 3, 0))}...`.slice(0, columns)
}

/** A word that is longer than a line is broken, too. */
function breakSentence (text: string, columns: number): string[] {
  const lines: string[] = []
  let rest = text
  while (rest.length > columns) {
    const blank = rest.lastIndexOf(' ', columns)
    const at = blank > 0 ? blank : columns
    lines.push(rest.slice(0, at).trimEnd())
    rest = rest.slice(at).trimStart()
  }
  return [...lines, rest]
}

function toText (lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('')
}
