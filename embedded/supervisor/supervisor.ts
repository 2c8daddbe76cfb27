/**
 * The process that stays: it starts the parts of the stack, says how to use them, starts again what ends, and ends
 * everything when asked to. `main.ts` becomes it. Code needed only once (settings, migrations) is loaded by other
 * processes that end, so that this one stays small: `npm run sizes`.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { MillraceError } from '../../engines/errors.ts'
import { createProgress, keepOutputToOwner } from './progress.ts'
import type { Handover } from './stack-settings.ts'
import { type Stack, startStack } from './start-stack.ts'

/**
 * A terminal sends Ctrl-C to npm and to this process, and npm passes it on: a second signal within this time is the
 * same key press.
 */
const SAME_PRESS_MS = 500
const PARENT_CHECK_MS = 250

const progress = createProgress(process.stdout, () => performance.now())
const starting = new AbortController()
let stack: Stack | undefined
let stopRequestedAt: number | undefined
let killAll = (): void => {}

// `main.ts` only loads this file, so that its compiled form is kept.
if (import.meta.main) await supervise()

async function supervise (): Promise<void> {
  // A closed terminal or pipe must not end the stack half-way through its shutdown.
  process.stdout.on('error', () => {})
  process.stderr.on('error', () => {})
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => requestStop(signal))
  watchNpm()
  // Tiers are not given the passwords in it.
  const { STACK_HANDOVER: handover = '', ...env } = process.env
  delete process.env.STACK_HANDOVER
  const { settings, startedAt } = JSON.parse(handover) as Handover
  try {
    progress.print('Starting Millrace')
    stack = await startStack({
      settings: { ...settings, env }, progress, signal: starting.signal, onForce: (force) => { killAll = force }
    })
    // Before the keys are in it.
    const warning = keepOutputToOwner(process.stdout.fd)
    if (stopRequestedAt === undefined) process.stdout.write(describeStack(stack, Date.now() - startedAt) + warning)
    else await stopStack(stack)
    collectGarbageOfStart()
  } catch (error) {
    if (stopRequestedAt !== undefined) process.exit(0)
    fail(error)
  }
}

/** Gives 4 MB back: hardly anything is allocated from now on, so the engine would not collect for days. */
function collectGarbageOfStart (): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as (options: object) => void
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}

function requestStop (reason: string): void {
  const now = performance.now()
  if (stopRequestedAt !== undefined) {
    if (now - stopRequestedAt < SAME_PRESS_MS) return
    progress.print('Killing everything')
    killAll()
    process.exit(1)
  }
  stopRequestedAt = now
  progress.print(`Stopping (${reason}). Press Ctrl-C again to kill everything`)
  if (stack === undefined) starting.abort()
  else void stopStack(stack).catch(fail)
}

async function stopStack (running: Stack): Promise<void> {
  await running.stop()
  progress.print('Stopped')
  process.exit(0)
}

function fail (error: unknown): never {
  // Our own errors say what to do; any other needs its stack trace to be found.
  const text = error instanceof MillraceError ? error.message : error instanceof Error ? error.stack : String(error)
  process.stderr.write(`\nMillrace could not start: ${text}\n`)
  process.exit(1)
}

/** When npm is killed, Ctrl-C in its terminal no longer reaches this process. */
function watchNpm (): void {
  if (process.env.npm_lifecycle_event === undefined) return
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent && stopRequestedAt === undefined) requestStop('npm has exited')
  }, PARENT_CHECK_MS).unref()
}

/** What a new user needs to begin, as one block of text. */
function describeStack (stack: Stack, durationMs: number): string {
  const { credentials, publicUrl } = stack
  const clickhouse = describeClickHouse(stack)
  const personalKey = stack.knowsPersonalKey
    ? credentials.personalApiKey
    : 'revoked, or of another data directory: npx millrace keys bootstrap EMAIL makes another'
  return `
Millrace is ready after ${(durationMs / 1000).toFixed(1)} s.

  Console            ${stack.consoleUrl}
  Base URL           ${publicUrl}
  Project API key    ${credentials.projectApiKey}
  Personal API key   ${personalKey}
  ClickHouse URL     ${clickhouse.url}
  Read-only login    ${clickhouse.login}
  Data and logs      ${stack.dataDir}

Send an event:

  curl -X POST ${publicUrl}/capture/ -H 'content-type: application/json' \\
    -d '{"api_key": "${credentials.projectApiKey}", "event": "hello", "distinct_id": "you"}'

Read it back:

  curl '${clickhouse.queryUrl}' --user '${clickhouse.user}' \\
    -d 'SELECT timestamp, event, distinct_id FROM events ORDER BY received_at DESC LIMIT 5 FORMAT PrettyCompact'

Ctrl-C stops everything.
`
}

/** For the operator's own ClickHouse, the password is not repeated and the login of analysts is not known. */
function describeClickHouse (stack: Stack): { url: string, login: string, queryUrl: string, user: string } {
  const { protocol, host, pathname, username } = new URL(stack.addresses.clickhouseUrl)
  const database = pathname.slice(1) || 'default'
  const url = `${protocol}//${host}`
  const queryUrl = `${url}/?database=${database}`
  if (stack.addresses.isClickHouseEmbedded) {
    const { analystPassword } = stack.credentials
    return {
      url: `${url} (database ${database})`, login: `analyst / ${analystPassword}`, queryUrl, user: `analyst:${analystPassword}`
    }
  }
  return {
    url: `${url} (database ${database}, from CLICKHOUSE_URL)`,
    login: 'as configured in your ClickHouse',
    queryUrl,
    user: `${username || 'default'}:<password>`
  }
}
