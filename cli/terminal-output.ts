import { formatBytes } from '../engines/figures.ts'
import type { CliContext } from './cli-context.ts'

/** A column of a table: its title, and the value it shows of a row; a field alone is both. */
export type Column<T> = Field<T> | readonly [title: string, show: Field<T> | ((row: T) => unknown)]

type Field<T> = keyof T & string

export interface Output {
  json?: boolean
}

export const JSON_OPTION = ['--json', 'write JSON instead of a table'] as const

const WIDTH = 30
const REDRAW_MS = 100

/** Writes rows as a table, or as a JSON array with `--json`. */
export function printRows<T> (
  context: CliContext, rows: readonly T[], columns: readonly Column<T>[], options: Output
): void {
  if (options.json === true) {
    context.stdout.write(`${JSON.stringify(rows, null, 2)}\n`)
    return
  }
  const named = columns.map((column) => typeof column === 'string' ? [column, column] as const : column)
  const show = (row: T): string[] => named.map(([, of]) => toText(typeof of === 'string' ? row[of] : of(row)))
  const table = [named.map(([title]) => title), ...rows.map(show)]
  const widths = columns.map((_, index) => table.reduce((most, cells) => Math.max(most, cells[index]?.length ?? 0), 0))
  for (const cells of table) {
    context.stdout.write(`${cells.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join('  ').trimEnd()}\n`)
  }
}

/** Writes the fields of one thing, one per line, or as a JSON object with `--json`. */
export function printFields (context: CliContext, fields: Record<string, unknown>, options: Output): void {
  if (options.json === true) {
    context.stdout.write(`${JSON.stringify(fields, null, 2)}\n`)
    return
  }
  const width = Math.max(...Object.keys(fields).map((name) => name.length))
  for (const [name, value] of Object.entries(fields)) {
    context.stdout.write(`${name.padEnd(width)}  ${toText(value)}\n`)
  }
}

export function toText (value: unknown): string {
  if (value === null || value === undefined) return '-'
  if (value instanceof Date) return value.toISOString().replace(/\.\d+Z$/, 'Z')
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.join(', ')
  // A name may contain control characters, which must not reach the terminal.
  return String(value).replaceAll(/\p{Cc}/gu, '?')
}

/**
 * Shows the progress of work of known size: a bar on a terminal, one line at the end otherwise.
 *
 * @param total  In bytes, as all amounts.
 */
export function startProgressBar (context: CliContext, title: string, total: number) {
  const isTerminal = (context.stderr as { isTTY?: boolean }).isTTY === true
  const startedAt = performance.now()
  let done = 0
  let drawnAt = -Infinity

  function draw (): void {
    const share = total === 0 ? 1 : Math.min(done / total, 1)
    const filled = Math.round(share * WIDTH)
    const bar = `${'#'.repeat(filled)}${'.'.repeat(WIDTH - filled)}`
    context.stderr.write(`\r\u001b[K${title.padEnd(10)} [${bar}] ${Math.floor(share * 100)} %  ${formatBytes(done)}`)
    drawnAt = performance.now()
  }

  return {
    add (amount: number): void {
      done += amount
      if (isTerminal && performance.now() - drawnAt > REDRAW_MS) draw()
    },
    end (): void {
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
      context.stderr.write(`${isTerminal ? '\r\u001b[K' : ''}${title.padEnd(10)} ${formatBytes(done)} in ${seconds} s\n`)
    }
  }
}
