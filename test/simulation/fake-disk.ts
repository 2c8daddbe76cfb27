/** A disk in memory, for everything below `/simulated`. To be imported before anything that writes files. */
import fsPromises from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { World } from './virtual-time.ts'

const ROOT = '/simulated'

interface FakeFile {
  data: Buffer
  /** What a power failure leaves. */
  flushed: Buffer
}

/** The disk of the machine on which the current world runs its ingest. */
class FakeDisk {
  #names = new Map<string, FakeFile>()
  /** As the folders were flushed. */
  #flushedNames = new Map<string, FakeFile>()

  clear (): void {
    this.#names = new Map()
    this.#flushedNames = new Map()
  }

  /** Of what was not flushed, names are gone, and data is there up to some byte. */
  cutPower (world: World): void {
    this.#names = new Map(this.#flushedNames)
    for (const file of this.#names.values()) {
      const kept = Math.floor(world.between(Math.min(file.flushed.length, file.data.length), file.data.length + 1))
      file.data = file.flushed = file.data.length > file.flushed.length ? file.data.subarray(0, kept) : file.flushed
    }
  }

  find (name: string): FakeFile {
    const file = this.#names.get(name)
    if (file === undefined) throw Object.assign(new Error(`ENOENT: ${name}`), { code: 'ENOENT' })
    return file
  }

  flushNames (folder: string): void {
    for (const name of new Set([...this.#flushedNames.keys(), ...this.#names.keys()])) {
      if (path.dirname(name) !== folder) continue
      const file = this.#names.get(name)
      if (file === undefined) this.#flushedNames.delete(name)
      else this.#flushedNames.set(name, file)
    }
  }

  /** What modules call: functions of `node:fs/promises`. */
  readonly calls = {
    readdir: (folder: string) =>
      [...this.#names.keys()].filter((name) => path.dirname(name) === folder).map((name) => path.basename(name)),
    readFile: (name: string, encoding?: string) =>
      encoding === undefined ? this.find(name).data : this.find(name).data.toString(),
    writeFile: (name: string, content: string | Buffer, { flush = false } = {}) => {
      const data = Buffer.from(content)
      const file = { data, flushed: flush ? data : Buffer.alloc(0) }
      this.#names.set(name, Object.assign(this.#names.get(name) ?? file, file))
    },
    rename: (from: string, to: string) => {
      this.#names.set(to, this.find(from))
      this.#names.delete(from)
    },
    rm: (name: string) => { this.#names.delete(name) },
    stat: (name: string) => ({ size: this.find(name).data.length }),
    open: (name: string, flags: string) => {
      if (flags === 'wx') this.calls.writeFile(name, '')
      return openFile(name)
    }
  }
}

export const disk = new FakeDisk()

type Call = (...args: any[]) => unknown

/** What the disk does takes a moment, and a process that dies meanwhile does not hear of it. */
function take (call: Call): Call {
  return async (...args) => {
    await delay(1)
    return call(...args)
  }
}

/** A file that is open, or a folder. */
function openFile (name: string): Record<string | symbol, Call> {
  const setData = (...pieces: Buffer[]): void => { disk.find(name).data = Buffer.concat(pieces) }
  return {
    writev: take((pieces: Buffer[], at: number) => {
      setData(disk.find(name).data.subarray(0, at), ...pieces)
      return { bytesWritten: Buffer.concat(pieces).length }
    }),
    read: take((into: Buffer, offset: number, length: number, at: number) =>
      ({ bytesRead: disk.find(name).data.copy(into, offset, at, at + length) })),
    datasync: take(() => { disk.find(name).flushed = disk.find(name).data }),
    sync: take(() => disk.flushNames(name)),
    truncate: take((length: number) => setData(disk.find(name).data.subarray(0, length))),
    close: async () => {},
    [Symbol.asyncDispose]: async () => {}
  }
}

for (const [name, call] of Object.entries(disk.calls)) {
  const real = (fsPromises as unknown as Record<string, Call>)[name]!
  const simulated = take(call)
  Object.assign(fsPromises, {
    [name]: (...args: unknown[]) => String(args[0]).startsWith(ROOT) ? simulated(...args) : real(...args)
  })
}
syncBuiltinESMExports()
