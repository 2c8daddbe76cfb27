import { ratioOf, reachesTarget, type Figure } from './question.ts'

/** Prints one table: figure, value, what it is compared with, ratio, target. */
export function printFigures (figures: ReadonlyMap<string, Figure>): void {
  const rows = [...figures].map(([name, figure]) => {
    const ratio = ratioOf(figure)
    const reached = reachesTarget(figure)
    return [
      name,
      `${format(figure.value)} ${figure.unit}`,
      figure.reference === undefined ? '' : `${format(figure.reference.value)} (${figure.reference.name})`,
      ratio === undefined ? '' : ratio.toFixed(2),
      figure.target === undefined ? '' : describe(figure.target),
      reached === undefined ? '' : reached ? 'reached' : 'missed'
    ]
  })
  const table = [['figure', 'value', 'reference', 'ratio', 'target', ''], ...rows]
  const widths = table[0]?.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0))) ?? []
  for (const row of table) {
    process.stdout.write(`${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ').trimEnd()}\n`)
  }
}

function format (value: number): string {
  return value >= 1000
    ? Math.round(value).toLocaleString('en')
    : value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)
}

function describe (target: NonNullable<Figure['target']>): string {
  return 'atMost' in target ? `<= ${format(target.atMost)}` : `>= ${format(target.atLeast)}`
}
