import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { TestContext } from './test-context.ts'

/** A flush that a process asked for, in milliseconds of Unix time. */
export interface Flush {
  file: string
  from: number
  to: number
}

/** Watches, by strace, the flushes of a process and its threads; null where that is not allowed. */
export async function watchFlushes (t: TestContext, pid: number): Promise<{ end: () => Promise<Flush[]> } | null> {
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-strace-'))
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  const output = path.join(folder, 'calls')
  const tracer = spawn('strace', ['-f', '-ttt', '-T', '-y', '-e', 'trace=fsync,fdatasync', '-p', String(pid), '-o', output], {
    stdio: ['ignore', 'ignore', 'pipe']
  })
  const exited = new Promise<void>((resolve) => { tracer.once('error', () => resolve()).once('exit', () => resolve()) })
  const attached = once(tracer.stderr, 'data').then(([said]) => /attached/.test(String(said)), () => false)
  if (!await Promise.race([attached, exited.then(() => false)])) return null
  return {
    async end () {
      tracer.kill('SIGINT')
      await exited
      return readFlushes(await readFile(output, 'utf8'))
    }
  }
}

/** `pid time fsync(9</path>) = 0 <seconds>`, or in two lines when another thread was heard meanwhile. */
function readFlushes (text: string): Flush[] {
  const begun = new Map<string, { file: string, from: number }>()
  const flushes: Flush[] = []
  for (const line of text.split('\n')) {
    const [, pid = '', time = ''] = /^(\d+)\s+(\d+\.\d+)/.exec(line) ?? []
    const at = Number(time) * 1000
    const file = /(?:fsync|fdatasync)\(\d+<([^>]+)>/.exec(line)?.[1]
    const seconds = /= 0 <(\d+\.\d+)>$/.exec(line)?.[1]
    if (file !== undefined && seconds !== undefined) flushes.push({ file, from: at, to: at + Number(seconds) * 1000 })
    else if (file !== undefined) begun.set(pid, { file, from: at })
    const unfinished = begun.get(pid)
    if (file === undefined && seconds !== undefined && unfinished !== undefined) {
      flushes.push({ ...unfinished, to: unfinished.from + Number(seconds) * 1000 })
    }
  }
  return flushes
}

/** Whether a file of that name was flushed completely within a period, by a millisecond clock. */
export function isFlushedWithin (flushes: readonly Flush[], file: RegExp, time: { from: number, to: number }): boolean {
  return flushes.some((flush) => file.test(flush.file) && flush.from >= time.from && flush.to <= time.to + 1)
}
