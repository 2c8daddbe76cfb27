import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import { createPoll, createStatusPoll } from '../../api/status/poll-status.ts'
import { NOT_RUNNING, type TierUrls } from '../../api/status/read-status.ts'
import type { Status } from '../../api/status/status-schema.ts'
import { describeAssurances, describeStages, describeWhole } from '../../console/describe-status.ts'
import { readStackState } from '../../embedded/data-dir/stack-access.ts'
import { formatBytes, formatCount, formatCounted, formatSeconds, formatUtc, UNKNOWN } from '../../engines/figures.ts'
import { loadSettings } from '../../platform/load-settings.ts'
import type { CliContext } from '../cli-context.ts'
import { collectStrings } from '../read-arguments.ts'

/** The API measures rates for so long, in milliseconds. */
const RATES_MS = 1000

/** Terminal codes: cursor to the top left, clear the screen. */
const CLEAR = '\u001b[H\u001b[J'

/** `millrace status`: throughput, backlogs and failures of all stages, live. */
export function addStatusCommands (program: Command, context: CliContext): void {
  program.command('status')
    .description('show throughput, backlogs and failures of all parts, refreshed each second')
    .option('--once', 'show it once and exit; the default when the output is not a terminal')
    .option('--json', 'print it once as JSON')
    .option('--ingest <url>', 'address of an ingest process; separate several by commas', collectStrings)
    .option('--pipeline <url>', 'address of a pipeline process; separate several by commas', collectStrings)
    .option('--api <url>', 'address of an API process; separate several by commas', collectStrings)
    .action(async ({ json, once, ...given }: { json?: boolean, once?: boolean } & Partial<TierUrls>) => {
      const { access, env } = context
      // An installation on another machine, which its API knows.
      const isRemote = Object.keys(given).length === 0 && (access.url !== undefined || (env['MILLRACE_URL'] ?? '') !== '')
      const read = isRemote ? async () => await readByApi(context) : await createReader(context, given)
      // The processes that are named are those of no stack here.
      const explain = async (): Promise<string> => Object.keys(given).length === 0 ? await explainStack(env) : ''
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

async function readByApi (context: CliContext): Promise<Status> {
  return await context.api.get('/api/status', { timeoutMs: context.timeoutMs + RATES_MS })
}

/** Reads the processes and services themselves, which works while the API does not. */
async function createReader (context: CliContext, given: Partial<TierUrls>): Promise<() => Promise<Status>> {
  const poll = createPoll({
    urls: await findTiers(context.env, given),
    // Not watched: the status shows a service that hangs, and goes on.
    connections: {
      nats: async () => await context.nats(false),
      clickhouse: async () => await context.clickhouse(false),
      postgres: async () => await context.postgres(false)
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

/** Share of the room for dead letters from which on a reader is warned. */
const FULL_SOON = 0.8

/**
 * Renders the status as text: one row per stage, then the problems.
 *
 * @param why  Why nothing answers; empty when that is not known.
 */
export function drawStatus (status: Status, why = ''): string {
  return [...listLines(status), ...why === '' ? [] : [why]].map((line) => `${line}\n`).join('')
}

function listLines (status: Status): string[] {
  const { ingest, pipeline, stores, exports } = status
  const { EVENTS: _, ...streams } = status.streams
  return [
    `Millrace ${status.version}   ${status.time.slice(0, 19).replace('T', ' ')}   ${status.status.toUpperCase()}  ${describeWhole(status).sentence}`,
    '',
    ...describeStages(status).map(({ name, state, headline, details }) =>
      row(name, state, [headline, ...details.map(({ label, value }) => `${label} ${value}`)])),
    ...Object.entries(pipeline.partitions).map(([partition, { pendingMessages, pendingBytes, lagSeconds, healthy }]) =>
      row(`  ${partition}`, healthy ? 'ok' : 'waiting', [formatCounted(pendingMessages, 'message'), formatBytes(pendingBytes), `lag ${formatSeconds(lagSeconds)}`])),
    ...Object.entries(streams).map(([name, { messages, bytes, maxBytes, oldestSeconds }]) =>
      row(name, '', [formatCounted(messages, 'message'), `${formatBytes(bytes)} of ${formatBytes(maxBytes)}`, `oldest ${formatSeconds(oldestSeconds)}`])),
    ...describeAssurances(status, formatUtc).map(({ name, state, sentence }) => row(name, state === 'stopped' ? 'failed' : state, [sentence])),
    row('definitions', '', [`${formatSeconds(pipeline.definitionsAgeSeconds)} old`]),
    row('postgres', stores.postgres === null ? 'unknown' : 'ok', [stores.postgres?.version ?? UNKNOWN]),
    row('nats', stores.nats === null ? 'unknown' : status.powerCuts === null ? 'ok' : 'too old', [stores.nats?.version ?? UNKNOWN]),
    // Nothing where there are no exports, and while everything is delivered.
    ...exports.lagSeconds === null ? [] : [row('exports', exports.lagSeconds > EXPORT_LATE_S ? 'late' : 'ok', [`${formatSeconds(exports.lagSeconds)} late`])],
    ...targetsRow(pipeline),
    '',
    ...countsRow('dropped since start', ingest.dropped),
    ...countsRow('requests refused since start', ingest.refusedRequests),
    ...findings(status)
  ]
}

function countsRow (label: string, counts: Record<string, number>): string[] {
  const entries = Object.entries(counts)
  return entries.length === 0 ? [] : [`${label}: ${entries.map(([name, count]) => `${name} ${formatCount(count)}`).join(', ')}`]
}

/** Problems, the worst last, where a reader looks first. */
function findings ({ behind, stuck, books, backup, pipeline, powerCuts }: Status): string[] {
  const found = [
    ...(behind.length === 0 ? [] : [`BEHIND ${behind.map(({ part, lagSeconds }) => `${part} by ${formatSeconds(lagSeconds)}`).join('; ')}`]),
    ...(backup.failed ? ['BACKUP FAILED  see npx millrace backups list'] : []),
    ...((pipeline.deadLetterFill ?? 0) >= FULL_SOON
      ? ['DEAD LETTERS ALMOST FULL  see npx millrace dead-letters stats']
      : (pipeline.deadLetters ?? 0) > 0 ? [`DEAD LETTERS  ${formatCount(pipeline.deadLetters)} wait, see npx millrace dead-letters stats`] : []),
    ...(powerCuts === null ? [] : [`POWER CUTS ARE NOT SURVIVED  ${powerCuts}`]),
    ...(stuck.length === 0 ? [] : [`STUCK  ${stuck.join('; ')}`]),
    // Events that are gone do not come back by waiting.
    ...(books === null || books.missing + books.extra === 0
      ? []
      : [`BOOKS DIFFER  ${formatCount(books.missing)} events missing, ${formatCount(books.extra)} extra: npx millrace audit lists the minutes`])
  ]
  return found.length === 0 ? ['nothing is stuck'] : found
}

/** As the alert on it. */
const EXPORT_LATE_S = 3600

function targetsRow ({ targetsFailing: failing, notificationsWaiting: waiting }: Status['pipeline']): string[] {
  if ((failing ?? 0) + (waiting ?? 0) === 0) return []
  return [row('targets', (failing ?? 0) > 0 ? 'failing' : 'waiting', [`${formatCount(failing)} failing`, `${formatCount(waiting)} notifications wait`])]
}

function row (name: string, state: string, cells: readonly string[]): string {
  return `${name.toLowerCase().padEnd(17)} ${state.padEnd(8)} ${cells.join('   ')}`.trimEnd()
}
