import type { Command } from 'commander'

/** A process of Millrace. Its entry point reads the settings, and ends the process itself. */
interface MillraceProcess {
  description: string
  /** Loads the entry point, which runs it. */
  run: () => Promise<unknown>
  /** It is done when its entry point is loaded; the others run until a signal ends them. */
  ends?: true
}

/** The processes that commands start. `cli/main.ts` starts them without loading anything else. */
export const PROCESSES: Readonly<Record<string, MillraceProcess>> = {
  start: {
    description: 'run the whole system on this machine: services, migrations and tiers; Ctrl-C stops it',
    run: async () => await import('../../embedded/supervisor/main.ts')
  },
  ingest: {
    description: 'run an ingest process: HTTP from SDKs in, JetStream out',
    run: async () => await import('../../ingest/main.ts')
  },
  pipeline: {
    description: 'run a pipeline process: JetStream in, ClickHouse and Postgres out',
    run: async () => await import('../../pipeline/main.ts')
  },
  api: {
    description: 'run an API process: flags and management',
    run: async () => await import('../../api/main.ts')
  },
  migrate: {
    description: 'bring the schemas of Postgres and ClickHouse up to this version',
    run: async () => await import('../../schema/migrate/main.ts'),
    ends: true
  }
}

/** `millrace start|ingest|pipeline|api|migrate`, configured by the environment alone. */
export function addProcessCommands (program: Command): void {
  for (const [name, { description, run, ends }] of Object.entries(PROCESSES)) {
    program.command(name)
      .description(`${description}; settings come from the environment (docs/reference/settings.md)`)
      .action(async () => {
        await run()
        if (ends !== true) await new Promise(() => {})
      })
  }
}
