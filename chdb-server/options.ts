/** What the server is started with: its command line, and passwords, by environment or standard input. */
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { isLogLevel, LOG_LEVELS } from './json-log.ts'
import { ANALYST, digestPassword, type LoginDigests } from './http/authenticate.ts'

/** The server cannot start as it was told to; its message says what to change. */
export class StartError extends Error {
  override name = 'StartError'
}

export type Options = Exclude<ReturnType<typeof readOptions>, string>

export const USAGE = `Usage: chdb-server [options]

A ClickHouse HTTP server on the engine of chdb.

  --data-dir FOLDER            where tables are kept (default: chdb-data)
  --port NUMBER                0 chooses a free one (default: 8123)
  --host ADDRESS               address to listen on (default: 127.0.0.1)
  --user NAME                  login that may do everything (default: default)
  --database NAME              made at the start; where analysts begin (default: main)
  --memory-bytes NUMBER        limit of the engine; 0: 60 % of this machine (default: 0)
  --send-timeout-seconds N     ends queries whose client stopped reading (default: 60)
  --log-level LEVEL            ${LOG_LEVELS.join(', ')} (default: info)
  --logins-on-stdin            {"name": "hexadecimal SHA-256 of its password", ...} instead of the variables below
  --help, --version

  CHDB_SERVER_PASSWORD          password of the user
  CHDB_SERVER_ANALYST_PASSWORD  password of the read-only login "analyst"; without one there is no such login
`

const LARGEST_PORT = 65_535
const DIGEST = /^[0-9a-f]{64}$/

/**
 * Reads command line and environment.
 *
 * @returns what is to be printed instead, for `help` and `version`.
 * @throws {StartError} naming each option that is not valid.
 */
export function readOptions (args: readonly string[], env: NodeJS.ProcessEnv) {
  const values = parse(args)
  if (values.help) return 'help' as const
  if (values.version) return 'version' as const
  const problems: string[] = []
  const readNumber = (name: 'port' | 'memory-bytes' | 'send-timeout-seconds', least: number, most: number): number => {
    const text = values[name]
    const isValid = /^\d{1,15}$/.test(text) && Number(text) >= least && Number(text) <= most
    if (!isValid) problems.push(`--${name} must be a whole number from ${least} to ${most}, but is ${JSON.stringify(text)}`)
    return Number(text)
  }
  const logLevel = values['log-level']
  if (!isLogLevel(logLevel)) problems.push(`--log-level must be one of ${LOG_LEVELS.join(', ')}, but is ${JSON.stringify(logLevel)}`)
  const options = {
    dataDir: values['data-dir'],
    /** 0: any free port. */
    port: readNumber('port', 0, LARGEST_PORT),
    /** Address to listen on. */
    host: values.host,
    /** Created at the start; analysts who name no database are in it. */
    database: values.database,
    /** Maximum memory of the engine; 0: a share of what there is. */
    memoryBytes: readNumber('memory-bytes', 0, Number.MAX_SAFE_INTEGER),
    /** How long a client may take nothing of its answer. */
    sendTimeoutSeconds: readNumber('send-timeout-seconds', 1, 86_400),
    logLevel: isLogLevel(logLevel) ? logLevel : 'info' as const,
    loginsFromStdin: values['logins-on-stdin'],
    logins: values['logins-on-stdin'] ? readDigests(readFileSync(0, 'utf8')) : readPasswords(values.user, env)
  }
  for (const user of isLoopback(options.host) ? [] : findOpenLogins(options.logins)) {
    problems.push(`user ${user} must have a password (CHDB_SERVER_PASSWORD) when --host is no address of this machine alone (127.0.0.1)`)
  }
  if (problems.length > 0) throw new StartError(problems.join('\n'))
  return options
}

/** Whether only this machine reaches what listens there. */
export function isLoopback (host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}

/** Logins that everybody has who reaches the server. */
export function findOpenLogins (logins: LoginDigests): string[] {
  const none = digestPassword('')
  return Object.keys(logins).filter((user) => logins[user] === none)
}

function readPasswords (user: string, env: NodeJS.ProcessEnv): LoginDigests {
  if (user === '' || user === ANALYST) throw new StartError(`--user must be a name other than ${ANALYST}, but is ${JSON.stringify(user)}`)
  const { CHDB_SERVER_PASSWORD: password = '', CHDB_SERVER_ANALYST_PASSWORD: analystPassword = '' } = env
  const owner = { [user]: digestPassword(password) }
  return analystPassword === '' ? owner : { ...owner, [ANALYST]: digestPassword(analystPassword) }
}

function readDigests (text: string): LoginDigests {
  const given: unknown = JSON.parse(text)
  const entries = Object.entries(given ?? {})
  const isValid = entries.length > 0 && entries.every(([user, digest]) => user !== '' && typeof digest === 'string' && DIGEST.test(digest))
  if (!isValid) throw new StartError('the logins on standard input must be an object of user names and SHA-256 digests')
  return Object.fromEntries(entries.map(([user, digest]) => [user, String(digest)]))
}

function parse (args: readonly string[]) {
  const text = (fallback: string) => ({ type: 'string', default: fallback }) as const
  const flag = { type: 'boolean', default: false } as const
  try {
    return parseArgs({
      args: [...args],
      options: {
        'data-dir': text('chdb-data'),
        port: text('8123'),
        host: text('127.0.0.1'),
        user: text('default'),
        database: text('main'),
        'memory-bytes': text('0'),
        'send-timeout-seconds': text('60'),
        'log-level': text('info'),
        'logins-on-stdin': flag,
        help: flag,
        version: flag
      }
    }).values
  } catch (error) {
    throw new StartError(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
  }
}
