/** The last resort against a query that the engine does not end: a new process in the place of this one. */
import { createHash } from 'node:crypto'
import { closeSync, constants, openSync, writeSync } from 'node:fs'
import { QueryError } from './http/query-errors.ts'

/** Names the queries that were ended so, in the environment of the process that follows. */
const VARIABLE = 'CHDB_SERVER_ENDED_QUERIES'

/** Such a query would have the server restarted again and again: dashboards ask every minute. */
const REFUSED_FOR_MS = 3_600_000

/** Whether this process has taken the place of another one. */
export function isReplacement (): boolean {
  return process.env[VARIABLE] !== undefined
}

/** Queries that only a restart could end. */
export class EndedQueries {
  /** Epoch milliseconds until which each is refused, by the digest of its text. */
  readonly #until = new Map<string, number>(Object.entries(JSON.parse(process.env[VARIABLE] ?? '{}')))

  /** @throws {QueryError} 159 for one that is known. */
  refuse (query: string): void {
    const until = this.#until.get(digest(query)) ?? 0
    if (Date.now() > until) return
    throw new QueryError(159, 'Timeout exceeded: this query could be ended only by a restart of the server. ' +
      `It is refused until ${new Date(until).toISOString()}; let it work on less in one step, such as shorter arrays`)
  }

  add (query: string): void {
    this.#until.set(digest(query), Date.now() + REFUSED_FOR_MS)
  }

  /** For the environment of the next process. */
  get variables (): NodeJS.ProcessEnv {
    const known = [...this.#until].filter(([, until]) => until > Date.now())
    return { [VARIABLE]: JSON.stringify(Object.fromEntries(known)) }
  }
}

/**
 * Replaces this process by a new one of its id and arguments, as by kill -9: no thread of the engine outlives it.
 *
 * @param next.port   At which this process was reached, also when it was chosen by the system.
 * @param next.stdin  What the new process reads from its standard input, by the named pipe.
 */
export function replaceProcess (
  next: { port: number, env: NodeJS.ProcessEnv, stdin: string | undefined, pipe: string }
): never {
  if (next.stdin === undefined || refillStdin(next.stdin, next.pipe)) {
    const args = process.argv.slice(1).filter((arg) => !arg.startsWith('--port='))
    const command = [process.execPath, ...process.execArgv, ...args, `--port=${next.port}`]
    process.execve?.(process.execPath, command, { ...process.env, ...next.env })
  }
  // Whoever started it starts it again.
  process.kill(process.pid, 'SIGKILL')
  throw new Error('unreachable')
}

/** A file that is opened gets the lowest number that is free. A thread of the engine may have taken it first. */
function refillStdin (text: string, pipe: string): boolean {
  // Its end for writing is closed by the replacement, which is then the end of the input.
  writeSync(openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK), text)
  closeSync(0)
  for (let attempt = 0; attempt < 100; attempt++) if (openSync(pipe, 'r') === 0) return true
  return false
}

function digest (text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
