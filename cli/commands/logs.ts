import { type FileHandle, open, readdir } from 'node:fs/promises'
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
/** Read at once while looking for the first line: some thousand lines. */
const CHUNK_BYTES = 1_048_576
/** At most so much of the end of a file is read; a log is emptied when it is as large. */
const MOST_BYTES = 64 * CHUNK_BYTES

interface LogsOptions {
  follow?: boolean
  json?: boolean
  lines: number
}

interface LogFile {
  source: string
  file: string
  /** Where the next reading starts, in bytes. */
  position: number
  /** It has more lines than are read of it. */
  isCut: boolean
}

interface SourceLine {
  source: string
  text: string
}

/** `millrace logs [--follow] [process]`, of the embedded stack; other processes log to standard output. */
export function addLogsCommands (program: Command, context: CliContext): void {
  program.command('logs')
    .description('show the last log lines of the stack on the data directory, in order of time: readable on a terminal, as written otherwise')
    .argument('[process]', `one of ${SOURCES.join(', ')}; default: all`, readSource)
    .option('--follow', 'go on with each new line until Ctrl-C')
    .option('--lines <count>', 'how many lines to show first', readCount, 50)
    .option('--json', 'show lines as they were written, on a terminal, too')
    .action(async (source: string | undefined, { follow, json, lines }: LogsOptions) => {
      if (follow === true) context.endAtInterrupt()
      const files = await findLogs(context, { source, lines })
      const isTerminal = (context.stdout as { isTTY?: boolean }).isTTY === true
      const show = ({ source, text }: SourceLine): void => {
        const shown = json === true || !isTerminal ? text : formatLogLine(text, { source, isColored: true })
        context.stdout.write(`${shown}\n`)
      }
      // Of what has no time, as a line of Postgres, only the place in its own file is known.
      const first = await Promise.all(files.map(async (log) => await readFirst(log, lines)))
      sortByTime(first).slice(-lines).forEach(show)
      for (;;) {
        if (follow !== true) return
        await delay(POLL_MS)
        sortByTime(await Promise.all(files.map(readNew))).forEach(show)
      }
    })
}

function readSource (text: string): string {
  if (!SOURCES.includes(text)) throw new InvalidArgumentError(`Give one of ${SOURCES.join(', ')}.`)
  return text
}

async function findLogs (
  { env, stderr }: CliContext, { source, lines }: { source: string | undefined, lines: number }
): Promise<LogFile[]> {
  const dataDir = path.resolve(loadSettings(env, ['MILLRACE_DATA_DIR']).MILLRACE_DATA_DIR)
  const folder = path.join(dataDir, 'logs')
  const names = await readdir(folder).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'EACCES') throw unreadable(dataDir, cause)
    throw new MillraceError('MILLRACE_LOGS_MISSING', `there are no logs in ${folder}: set MILLRACE_DATA_DIR to the data directory ` +
      'of the stack. A tier that runs by itself logs to its standard output', { cause })
  })
  const sources = source === undefined ? SOURCES.filter((each) => names.includes(`${each}.log`)) : [source]
  return await Promise.all(sources.map(async (each) => {
    const file = path.join(folder, `${each}.log`)
    const handle = await open(file).catch(() => undefined)
    if (handle === undefined) return { source: each, file, position: 0, isCut: false }
    try {
      const { position, found } = await findLastLines(handle, lines)
      const isCut = found < lines && position > 0
      if (isCut) {
        stderr.write(`millrace: of ${file} only the last ${found} lines are shown, because no more than its last ${MOST_BYTES / CHUNK_BYTES} MiB are read\n`)
      }
      return { source: each, file, position, isCut }
    } finally {
      await handle.close()
    }
  }))
}

/** The last lines, also those from before the file was emptied. */
async function readFirst (log: LogFile, lines: number): Promise<SourceLine[]> {
  const read = (await readNew(log)).slice(-lines)
  if (read.length === lines || log.isCut) return read
  const rotated: LogFile = { ...log, file: `${log.file}.1`, position: 0 }
  const handle = await open(rotated.file).catch(() => undefined)
  if (handle === undefined) return read
  try {
    rotated.position = (await findLastLines(handle, lines - read.length)).position
  } finally {
    await handle.close()
  }
  return [...await readNew(rotated), ...read].slice(-lines)
}

/** Where the last lines of a file begin, in bytes, and how many whole ones there are from there to its end. */
async function findLastLines (file: FileHandle, lines: number): Promise<{ position: number, found: number }> {
  const { size } = await file.stat()
  const end = Math.max(0, size - MOST_BYTES)
  const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, size))
  // Ends of lines, from the last one back; the line behind the one that is read last is whole.
  let ends = 0
  let position = size
  for (let before = size; before > end;) {
    const start = Math.max(end, before - CHUNK_BYTES)
    const { bytesRead } = await file.read(chunk, 0, before - start, start)
    const read = chunk.subarray(0, bytesRead)
    for (let at = read.lastIndexOf(0x0a); at >= 0; at = at === 0 ? -1 : read.lastIndexOf(0x0a, at - 1)) {
      position = start + at + 1
      if (ends === lines) return { position, found: lines }
      ends += 1
    }
    before = start
  }
  return end === 0 ? { position: 0, found: ends } : { position, found: Math.max(0, ends - 1) }
}

/** Reads the whole lines that came since the last reading. */
async function readNew (log: LogFile): Promise<SourceLine[]> {
  const handle = await open(log.file).catch(() => undefined)
  if (handle === undefined) return []
  try {
    const { size } = await handle.stat()
    // Emptied by the rotation.
    if (size < log.position) log.position = 0
    const length = size - log.position
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, log.position)
    const end = buffer.subarray(0, bytesRead).lastIndexOf(0x0a) + 1
    log.position += end
    const lines = buffer.toString('utf8', 0, end).split('\n').slice(0, -1)
    return lines.map((text) => ({ source: log.source, text }))
  } finally {
    await handle.close()
  }
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
