import { open, readdir } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type Command, InvalidArgumentError } from 'commander'
import { unreadable } from '../../embedded/data-dir/stack-access.ts'
import { MillraceError } from '../../engines/errors.ts'
import { loadSettings } from '../../platform/load-settings.ts'
import { formatLogLine, timeOf } from '../../engines/log-lines.ts'
import type { CliContext } from '../cli-context.ts'
import { readCount } from '../read-arguments.ts'

const SOURCES = ['ingest', 'pipeline', 'api', 'clickhouse', 'postgres', 'nats-server', 'backup']
const POLL_MS = 300
/** Read of the end of a file at first: some thousand lines. */
const FIRST_BYTES = 1_048_576

interface LogFile {
  source: string
  file: string
  /** Where the next reading starts, in bytes. */
  position: number
}

interface SourceLine {
  source: string
  text: string
}

/** `millrace logs [--follow] [process]`, of the embedded stack; other processes log to standard output. */
export function addLogsCommands (program: Command, context: CliContext): void {
  program.command('logs')
    .description('show the last log lines of the stack on the data directory, in chronological order: formatted on a terminal, raw otherwise')
    .argument('[process]', `one of ${SOURCES.join(', ')}; default: all`, readSource)
    .option('--follow', 'follow new lines until Ctrl-C')
    .option('--lines <count>', 'number of existing lines to show', readCount, 50)
    .option('--json', 'show raw lines, also on a terminal')
    .action(async (source: string | undefined, options: { follow?: boolean, json?: boolean, lines: number }) => {
      const { follow, json, lines } = options
      // Ctrl-C is how it is left: no failure.
      const end = new AbortController()
      if (follow === true) process.once('SIGINT', () => { end.abort() })
      const files = await findLogs(context, source)
      const isTerminal = (context.stdout as { isTTY?: boolean }).isTTY === true
      const show = ({ source, text }: SourceLine): void => {
        const shown = json === true || !isTerminal ? text : formatLogLine(text, { source, isColored: true })
        context.stdout.write(`${shown}\n`)
      }
      // Of what has no time, as a line of Postgres, only the place in its own file is known.
      const first = await Promise.all(files.map(async (log) => await readFirst(log, lines)))
      sortByTime(first).slice(-lines).forEach(show)
      if (follow !== true) return
      while (!end.signal.aborted) {
        await delay(POLL_MS)
        sortByTime(await Promise.all(files.map(readNew))).forEach(show)
      }
    })
}

function readSource (text: string): string {
  if (!SOURCES.includes(text)) throw new InvalidArgumentError(`Give one of ${SOURCES.join(', ')}.`)
  return text
}

async function findLogs ({ env }: CliContext, source: string | undefined): Promise<LogFile[]> {
  const dataDir = path.resolve(loadSettings(env, ['MILLRACE_DATA_DIR']).MILLRACE_DATA_DIR)
  const folder = path.join(dataDir, 'logs')
  const names = await readdir(folder).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'EACCES') throw unreadable(dataDir, cause)
    throw new MillraceError('MILLRACE_LOGS_MISSING', `there are no logs in ${folder}: set MILLRACE_DATA_DIR to the data directory ` +
      'of the stack. A tier that runs by itself logs to its standard output', { cause })
  })
  const sources = source === undefined ? SOURCES.filter((each) => names.includes(`${each}.log`)) : [source]
  return sources.map((each) => ({ source: each, file: path.join(folder, `${each}.log`), position: 0 }))
}

/** The last lines, also those from before the file was emptied. */
async function readFirst (log: LogFile, lines: number): Promise<SourceLine[]> {
  const { texts, end } = await readLast(log.file, lines)
  log.position = end
  const older = texts.length < lines ? await readLast(`${log.file}.1`, lines - texts.length) : { texts: [] }
  return [...older.texts, ...texts].map((text) => ({ source: log.source, text }))
}

/** The last whole lines of a file, and where they end, in bytes; none of a file that is not there. */
async function readLast (file: string, lines: number): Promise<{ texts: string[], end: number }> {
  for (let bytes = FIRST_BYTES; ; bytes *= 4) {
    const { texts, start, end } = await readPart(file, (size) => Math.max(0, size - bytes))
    // The first one may have begun before.
    const whole = start > 0 ? texts.slice(1) : texts
    if (whole.length >= lines || start === 0) return { texts: whole.slice(-lines), end }
  }
}

/** Reads the whole lines that came since the last reading. */
async function readNew (log: LogFile): Promise<SourceLine[]> {
  // A shorter one was emptied by the rotation.
  const { texts, end } = await readPart(log.file, (size) => size < log.position ? 0 : log.position)
  log.position = end
  return texts.map((text) => ({ source: log.source, text }))
}

/** The whole lines of a file from a byte on, and where they end. */
async function readPart (
  file: string, startOf: (size: number) => number
): Promise<{ texts: string[], start: number, end: number }> {
  await using handle = await open(file).catch(() => null)
  if (handle === null) return { texts: [], start: 0, end: 0 }
  const { size } = await handle.stat()
  const start = startOf(size)
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(size - start), 0, size - start, start)
  const end = buffer.subarray(0, bytesRead).lastIndexOf(0x0a) + 1
  return { texts: buffer.toString('utf8', 0, end).split('\n').slice(0, -1), start, end: start + end }
}

/** Merges lines by time; a line without one stays behind the line before it in its file. */
function sortByTime (files: readonly SourceLine[][]): SourceLine[] {
  const timed = files.flatMap((lines) => {
    let time = 0
    return lines.map((line) => {
      time = timeOf(line.text) ?? parsePlainTime(line.text) ?? time
      return { line, time }
    })
  })
  return timed.sort((a, b) => a.time - b.time).map(({ line }) => line)
}

/** `2026-01-02 14:03:07.123 UTC [1] LOG:` of Postgres, `[1] 2026/01/02 14:03:07.123456 [INF]` of nats-server. */
function parsePlainTime (text: string): number | undefined {
  const [, year, month, day, clock] = /(\d{4})[-/](\d\d)[-/](\d\d) (\d\d:\d\d:\d\d\.\d{3})/.exec(text.slice(0, 60)) ?? []
  return clock === undefined ? undefined : Date.parse(`${year}-${month}-${day}T${clock}Z`)
}
