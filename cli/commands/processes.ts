import type { Command } from 'commander'

/**
 * The processes that run until a signal ends them: a description, and what loads the entry point, which runs it, reads
 * the settings and ends the process itself. `cli/main.ts` starts them without loading anything else.
 */
export const PROCESSES: Readonly<Record<string, readonly [description: string, run: () => Promise<unknown>]>> = {
  start: [
    'run the whole system on this machine: services, migrations and tiers; Ctrl-C stops it',
    async () => await import('../../embedded/supervisor/main.ts')
  ],
  ingest: ['run an ingest process: HTTP from SDKs in, JetStream out', async () => await import('../../ingest/main.ts')],
  pipeline: [
    'run a pipeline process: JetStream in, ClickHouse and Postgres out', async () => await import('../../pipeline/main.ts')
  ],
  api: ['run an API process: flags and management', async () => await import('../../api/main.ts')]
}

/** `millrace start|ingest|pipeline|api`, configured by the environment alone. */
export function addProcessCommands (program: Command): void {
  for (const [name, [description, run]] of Object.entries(PROCESSES)) {
    program.command(name)
      .description(`${description}; settings come from the environment (docs/reference/settings.md)`)
      .action(async () => {
        await run()
        await new Promise(() => {})
      })
  }
}
