import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'

/** Its clock and timers are not those of a test, so it is a process of its own. */
const MAIN = path.join(import.meta.dirname, 'main') + '.ts'

const SEEDS = 150

t.test('every event is stored once, and nothing waits for ever, whatever goes wrong', async (t) => {
  const { NODE_OPTIONS: _, ...env } = process.env
  const run = await promisify(execFile)(process.execPath, [MAIN, '--seeds', String(SEEDS)], { env })
    .catch((error: unknown) => error as { stdout: string, stderr: string })

  t.match(run.stdout, new RegExp(`^${SEEDS} seeds, `), run.stderr)
})
