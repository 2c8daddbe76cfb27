import { type CliContext } from '../cli-context.ts'

/** Shows how far something of known size has come: a bar on a terminal, a line at the end elsewhere. */
export interface ProgressBar {
  add: (amount: number) => void
  end: () => void
}

const WIDTH = 30
const REDRAW_MS = 100

/** @param describe  Shows an amount; by default bytes, as megabytes. */
export function startProgressBar (
  context: CliContext, title: string, total: number, describe: (amount: number) => string = megabytes
): ProgressBar {
  const isTerminal = (context.stderr as { isTTY?: boolean }).isTTY === true
  const startedAt = performance.now()
  let done = 0
  let drawnAt = -Infinity

  function draw (): void {
    const share = total === 0 ? 1 : Math.min(done / total, 1)
    const filled = Math.round(share * WIDTH)
    const bar = `${'#'.repeat(filled)}${'.'.repeat(WIDTH - filled)}`
    context.stderr.write(`\r\u001b[K${title.padEnd(10)} [${bar}] ${Math.floor(share * 100)} %  ${describe(done)}`)
    drawnAt = performance.now()
  }

  return {
    add (amount) {
      done += amount
      if (isTerminal && performance.now() - drawnAt > REDRAW_MS) draw()
    },
    end () {
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
      context.stderr.write(`${isTerminal ? '\r\u001b[K' : ''}${title.padEnd(10)} ${describe(done)} in ${seconds} s\n`)
    }
  }
}

function megabytes (bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`
}
