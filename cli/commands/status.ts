import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from 'commander'
import { createPoll, createStatusPoll } from '../../api/status/poll-status.ts'
import { NOT_RUNNING, type TierUrls } from '../../api/status/read-status.ts'
import type { Status } from '../../api/status/status-schema.ts'
import { readStackState } from '../../embedded/data-dir/stack-access.ts'
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
    .option('--once', 'show it once; the default without a terminal')
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
  const api = await context.api()
  return await api.get('/api/status', { timeoutMs: context.timeoutMs + RATES_MS })
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

const CLIENTS = {
  answered: 'captures are answered',
  spooled: 'captures are answered from the disk of ingest',
  refused: 'captures are refused with 503',
  'no answer': 'captures get no answer'
} as const

/** Share of the room for dead letters from which on a reader is warned. */
const FULL_SOON = 0.8

const UNKNOWN = 'unknown'

/** The whole text is in `status --json`. */
const MAX_ERROR_LENGTH = 200

/**
 * Renders the status as text: one row per stage, then the problems.
 *
 * @param why  Why nothing answers; empty when that is not known.
 */
export function drawStatus (status: Status, why = ''): string {
  return [...listLines(status), ...why === '' ? [] : [why]].map((line) => `${line}\n`).join('')
}

function listLines (status: Status): string[] {
  const { ingest, pipeline, api, stores, streams } = status
  const state = (tier: string): string => {
    const processes = status.tiers.filter((each) => each.tier === tier)
    const worst = processes.find((each) => each.status === 'down') ?? processes.find((each) => each.status !== 'ok')
    return `${worst?.status ?? 'ok'}${processes.length > 1 ? ` x${processes.length}` : ''}`
  }
  const rowsPerInsert = pipeline.rowsPerInsert === null ? '-' : number(pipeline.rowsPerInsert)
  return [
    `Millrace ${status.version}   ${status.time.slice(0, 19).replace('T', ' ')}   ${status.status.toUpperCase()}  ${CLIENTS[status.clients.captures]}, flags ` +
      `${status.clients.flags === 'answered' ? 'are answered' : 'get no answer'}`,
    '',
    row('ingest', state('ingest'), [
      `${number(ingest.acceptedPerSecond)} events/s accepted`, `${number(ingest.droppedPerSecond)}/s dropped`,
      `${bytes(ingest.bytesPerSecond)}/s`, `publish ${ms(ingest.publishMs)}`
    ]),
    row('spool', ingest.spoolBytes === null ? UNKNOWN : ingest.spoolBytes > 0 ? 'waiting' : 'ok', [bytes(ingest.spoolBytes), `${number(ingest.refusedMessages)} messages refused`]),
    ...(Object.keys(streams).length === 0 ? [row('streams', UNKNOWN, [])] : []),
    ...Object.entries(streams).map(([name, fill]) => row(name.toLowerCase(), '', [
      `${number(fill.messages)} messages`, `${bytes(fill.bytes)} of ${bytes(fill.maxBytes)}`, `oldest ${seconds(fill.oldestSeconds)}`
    ])),
    row('pipeline', state('pipeline'), [
      `${number(pipeline.storedPerSecond)} rows/s stored`, `insert ${ms(pipeline.insertMs)}`,
      `${rowsPerInsert} rows/insert`, `${number(pipeline.deduplicated)} deduplicated`
    ]),
    ...Object.entries(pipeline.partitions).map(([partition, { pendingMessages, pendingBytes, lagSeconds, healthy }]) =>
      row(`  ${partition}`, healthy ? 'ok' : 'waiting', [`${number(pendingMessages)} messages`, bytes(pendingBytes), `lag ${seconds(lagSeconds)}`])),
    row('dead letters', pipeline.deadLetterFill === null ? UNKNOWN : pipeline.deadLetterFill >= FULL_SOON ? 'full soon' : (pipeline.deadLetters ?? 0) > 0 ? 'waiting' : '',
      pipeline.deadLetterFill === null ? [] : [number(pipeline.deadLetters), `${Math.round(pipeline.deadLetterFill * 100)} % full`]),
    row('books', status.books === null ? UNKNOWN : isBalanced(status.books) ? 'ok' : 'differ', status.books === null
      ? []
      : [`${number(status.books.missing)} missing`, `${number(status.books.extra)} extra`, `compared ${seconds(status.books.ageSeconds)} ago`]),
    row('complete', stores.watermark == null ? UNKNOWN : stores.watermark.heldBy === '' ? 'ok' : 'waiting', stores.watermark == null
      ? []
      : [`through ${stores.watermark.completeThrough.slice(0, 23).replace('T', ' ')}`, ...(stores.watermark.heldBy === '' ? [] : [`waits for ${stores.watermark.heldBy}`])]),
    row('definitions', '', [`${seconds(pipeline.definitionsAgeSeconds)} old`]),
    row('clickhouse', stores.clickhouse === null ? UNKNOWN : 'ok', stores.clickhouse === null
      ? []
      : [`${number(stores.clickhouse.events)} rows`, bytes(stores.clickhouse.bytes), `${bytes(stores.clickhouse.freeBytes)} free`, stores.clickhouse.version]),
    row('postgres', stores.postgres === null ? UNKNOWN : 'ok', stores.postgres === null ? [] : [bytes(stores.postgres.bytes), stores.postgres.version]),
    row('nats', stores.nats === null ? UNKNOWN : status.powerCuts === null ? 'ok' : 'too old', stores.nats === null ? [] : [stores.nats.version]),
    ...backupRow(status.backup),
    ...exportsRow(status.exports),
    ...targetsRow(pipeline),
    row('api', state('api'), [
      `${number(api.requestsPerSecond)} requests/s`, `answer ${ms(api.requestMs)}`, `${number(api.flagEvaluationsPerSecond)} flags/s`
    ]),
    '',
    ...countsRow('dropped since start', ingest.dropped),
    ...countsRow('requests refused since start', ingest.refusedRequests),
    ...findings(status)
  ]
}

function countsRow (label: string, counts: Record<string, number>): string[] {
  const entries = Object.entries(counts)
  return entries.length === 0 ? [] : [`${label}: ${entries.map(([name, count]) => `${name} ${number(count)}`).join(', ')}`]
}

/** Problems, the worst last, where a reader looks first. */
function findings ({ behind, stuck, books, backup, pipeline, powerCuts }: Status): string[] {
  const isFull = pipeline.deadLetterFill !== null && pipeline.deadLetterFill >= FULL_SOON
  const found = [
    ...(behind.length === 0 ? [] : [`BEHIND ${behind.map(({ part, lagSeconds }) => `${part} by ${seconds(lagSeconds)}`).join('; ')}`]),
    ...(backup.failed ? ['BACKUP FAILED  see npx millrace backups list'] : []),
    ...(isFull
      ? ['DEAD LETTERS ALMOST FULL  see npx millrace dead-letters stats']
      : (pipeline.deadLetters ?? 0) > 0 ? [`DEAD LETTERS  ${number(pipeline.deadLetters)} wait, see npx millrace dead-letters stats`] : []),
    ...(powerCuts === null ? [] : [`POWER CUTS ARE NOT SURVIVED  ${powerCuts}`]),
    ...(stuck.length === 0 ? [] : [`STUCK  ${stuck.join('; ')}`]),
    // Events that are gone do not come back by waiting.
    ...(books === null || isBalanced(books)
      ? []
      : [`BOOKS DIFFER  ${number(books.missing)} events missing, ${number(books.extra)} extra: npx millrace audit lists the minutes`])
  ]
  return found.length === 0 ? ['nothing is stuck'] : found
}

function isBalanced ({ missing, extra }: NonNullable<Status['books']>): boolean {
  return missing === 0 && extra === 0
}

/** As the alert on it. */
const EXPORT_LATE_S = 3600

/** Nothing while everything is delivered. */
function targetsRow ({ targetsFailing: failing, notificationsWaiting: waiting }: Status['pipeline']): string[] {
  if ((failing ?? 0) + (waiting ?? 0) === 0) return []
  return [row('targets', (failing ?? 0) > 0 ? 'failing' : 'waiting', [`${number(failing)} failing`, `${number(waiting)} notifications wait`])]
}

/** Nothing where no backups are made. */
function backupRow ({ ageSeconds, durationSeconds, intervalSeconds, failed, lastError, lastWarning }: Status['backup']): string[] {
  if (ageSeconds === null && !failed && (intervalSeconds ?? 0) === 0) return []
  const isLate = ageSeconds !== null && (intervalSeconds ?? 0) > 0 && ageSeconds > 2 * intervalSeconds!
  return [row('backup', failed ? 'failed' : isLate ? 'late' : ageSeconds === null ? 'none yet' : lastWarning === null ? 'ok' : 'warning', [
    ...ageSeconds === null ? [] : [`${(ageSeconds / 3600).toFixed(1)} h old`, `took ${seconds(durationSeconds)}`],
    ...lastError === null ? [] : [oneLine(lastError)],
    ...lastWarning === null ? [] : [oneLine(lastWarning)]
  ])]
}

/** Nothing where there are no exports. */
function exportsRow ({ lagSeconds }: Status['exports']): string[] {
  return lagSeconds === null ? [] : [row('exports', lagSeconds > EXPORT_LATE_S ? 'late' : 'ok', [`${seconds(lagSeconds)} late`])]
}

/** Of a text from elsewhere, what a line of a terminal can show. */
function oneLine (text: string): string {
  const shown = text.replaceAll(/[\s\p{Cc}]+/gu, ' ')
  return shown.length > MAX_ERROR_LENGTH ? `${shown.slice(0, MAX_ERROR_LENGTH)}...` : shown
}

function row (name: string, state: string, cells: readonly string[]): string {
  return `${name.padEnd(15)} ${state.padEnd(10)}${cells.map((cell) => `${cell.padEnd(25)} `).join('')}`.trimEnd()
}

function number (value: number | null): string {
  return value === null ? UNKNOWN : Math.round(value).toLocaleString('en')
}

function ms (value: number | null): string {
  return value === null ? '-' : `${value.toFixed(value < 10 ? 1 : 0)} ms`
}

function seconds (value: number | null): string {
  return value === null ? UNKNOWN : `${value.toFixed(1)} s`
}

function bytes (value: number | null): string {
  if (value === null) return UNKNOWN
  const units = ['B', 'KB', 'MB', 'GB', 'TB']
  let unit = 0
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000
    unit++
  }
  return `${value.toFixed(unit === 0 || value >= 100 ? 0 : 1)} ${units[unit]}`
}
