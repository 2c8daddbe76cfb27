import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import type { CliContext } from '../cli-context.ts'
import { readStackState } from '../../embedded/data-dir/stack-access.ts'
import { loadSettings } from '../../platform/load-settings.ts'
import type { Status } from '../../api/status/status-schema.ts'
import { createPoll, createStatusPoll } from '../../api/status/poll-status.ts'
import { NOT_RUNNING, type TierUrls } from '../../api/status/read-status.ts'
import { drawStatus } from '../draw-status.ts'
import { collectStrings } from '../read-arguments.ts'

interface StatusOptions {
  json?: boolean
  once?: boolean
  ingest?: string[]
  pipeline?: string[]
  api?: string[]
}

/** The API measures rates for so long, in milliseconds. */
const RATES_MS = 1000

/** Terminal codes: cursor to the top left, clear the screen. */
const CLEAR = '\u001b[H\u001b[J'

/** `millrace status`: throughput, backlogs and failures of all stages, live. */
export function addStatusCommands (program: Command, context: CliContext): void {
  program.command('status')
    .description('show throughput, backlogs and failures of all parts, refreshed each second')
    .option('--once', 'show it once; the default without a terminal')
    .option('--json', 'print it once as JSON')
    .option('--ingest <url>', 'address of an ingest process; separate several by commas', collectStrings)
    .option('--pipeline <url>', 'address of a pipeline process; separate several by commas', collectStrings)
    .option('--api <url>', 'address of an API process; separate several by commas', collectStrings)
    .action(async ({ json, once, ...given }: StatusOptions) => {
      const isRemote = isElsewhere(context, given)
      const read = isRemote ? async () => await readByApi(context) : await createReader(context, given)
      // The processes that are named are those of no stack here.
      const explain = async (): Promise<string> => Object.keys(given).length === 0 ? await explainStack(context.env) : ''
      const isLive = json !== true && once !== true && (context.stdout as { isTTY?: boolean }).isTTY === true
      for (;;) {
        const status = await read()
        const why = isRemote ? '' : await explain()
        if (json === true) {
          if (why !== '') context.stderr.write(`millrace: ${why}\n`)
          context.stdout.write(`${JSON.stringify(status, null, 2)}\n`)
        } else {
          context.stdout.write(`${isLive ? CLEAR : ''}${drawStatus(status, why)}`)
        }
        if (!isLive) return
      }
    })
}

/** Whether the status is that of an installation on another machine, which its API knows. */
function isElsewhere ({ access, env }: CliContext, given: Partial<TierUrls>): boolean {
  return Object.keys(given).length === 0 && (access.url !== undefined || (env['MILLRACE_URL'] ?? '') !== '')
}

async function readByApi (context: CliContext): Promise<Status> {
  const api = await context.api()
  return await api.get('/api/status', { timeoutMs: context.timeoutMs + RATES_MS })
}

/** Reads the processes and services themselves, which works while the API does not. */
async function createReader (context: CliContext, given: Partial<TierUrls>): Promise<() => Promise<Status>> {
  const poll = createPoll({
    urls: await findTiers(context.env, given),
    // Not watched: the status shows a service that hangs, and goes on.
    connections: {
      nats: async () => await context.nats({ isWatched: false }),
      clickhouse: async () => await context.clickhouse({ isWatched: false }),
      postgres: async () => await context.postgres({ isWatched: false })
    },
    now: () => context.now()
  })
  return createStatusPoll({ poll, sleep: delay })
}

/** Why nothing answers, or what answers will not be started again; empty for a stack that runs, and without one. */
async function explainStack (env: NodeJS.ProcessEnv): Promise<string> {
  const state = await readStackState(loadSettings(env, ['MILLRACE_DATA_DIR']).MILLRACE_DATA_DIR)
  return state.kind === 'stopped' || state.kind === 'killed' ? state.why : ''
}

/**
 * Finds the tiers: those given as options, else those of the embedded stack that runs on the data directory, else,
 * where none was ever started, those at the ports of the settings.
 */
export async function findTiers (env: NodeJS.ProcessEnv, given: Partial<TierUrls>): Promise<TierUrls> {
  const settings = loadSettings(env, [
    'MILLRACE_DATA_DIR', 'MILLRACE_PORT', 'MILLRACE_API_URL', 'MILLRACE_API_PORT', 'MILLRACE_PIPELINE_PORT'
  ])
  // Not the ports of the settings: a stack that is stopped is down, whatever else answers there.
  const stopped = { baseUrl: NOT_RUNNING, apiUrl: NOT_RUNNING, pipelineUrl: NOT_RUNNING }
  const state = await readStackState(settings.MILLRACE_DATA_DIR)
  const stack = state.kind === 'none' ? undefined : state.kind === 'stopped' ? stopped : state.addresses
  const found = stack ?? {
    baseUrl: `http://127.0.0.1:${settings.MILLRACE_PORT}`,
    // Its default has the default of the port: with another port it would be the API of somebody else.
    apiUrl: (env.MILLRACE_API_URL ?? '') === '' ? `http://127.0.0.1:${settings.MILLRACE_API_PORT}` : settings.MILLRACE_API_URL,
    pipelineUrl: `http://127.0.0.1:${settings.MILLRACE_PIPELINE_PORT}`
  }
  return { ingest: [found.baseUrl], pipeline: [found.pipelineUrl], api: [found.apiUrl], ...given }
}
