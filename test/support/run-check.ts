import type { TestContext } from './test-context.ts'

/** Runs a check of the command line, then ends what it started. Exits with its result, or 2 when it could not run. */
export async function runCheck (check: (t: TestContext) => Promise<number>): Promise<void> {
  const cleanUp: (() => unknown)[] = []
  process.exitCode = await check({ teardown: (work) => cleanUp.push(work) }).catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.stack ?? error.message : String(error)}\n`)
    return 2
  })
  for (const work of cleanUp.reverse()) await work()
}
