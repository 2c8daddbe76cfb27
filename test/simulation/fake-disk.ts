/** A disk in memory, for everything below `/simulated`. To be imported before anything that writes files. */
import fsPromises from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import path from 'node:path'
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

  list (folder: string): string[] {
    return [...this.#names.keys()].filter((name) => path.dirname(name) === folder).map((name) => path.basename(name))
  }

  find (name: string): FakeFile {
    const file = this.#names.get(name)
    if (file === undefined) throw Object.assign(new Error(`ENOENT: ${name}`), { code: 'ENOENT' })
    return file
  }

  write (name: string, data: Buffer, flush = false): void {
    const file = { data, flushed: flush ? data : Buffer.alloc(0) }
    const before = this.#names.get(name)
    if (before === undefined) this.#names.set(name, file)
    else Object.assign(before, file)
  }

  rename (from: string, to: string): void {
    this.#names.set(to, this.find(from))
    this.#names.delete(from)
  }

  remove (name: string): void {
    this.#names.delete(name)
  }

  flushNames (folder: string): void {
    for (const names of [this.#flushedNames, this.#names]) {
      for (const name of [...names.keys()].filter((each) => path.dirname(each) === folder)) {
        const file = this.#names.get(name)
        if (file === undefined) this.#flushedNames.delete(name)
        else this.#flushedNames.set(name, file)
      }
    }
  }
}

export const disk = new FakeDisk()

/** What the disk does takes a moment, and a process that dies meanwhile does not hear of it. */
async function act<T> (work: () => T): Promise<T> {
  return await new Promise<T>((resolve, reject) => {
    setTimeout(() => {
      try {
        resolve(work())
      } catch (error) {
        reject(error instanceof Error ? error : new Error(String(error)))
      }
    }, 1)
  })
}

/** A file that is open, or a folder. */
function openFile (name: string): Record<string | symbol, unknown> {
  return {
    writev: async (pieces: Buffer[], at: number) => await act(() => {
      const file = disk.find(name)
      const written = Buffer.concat(pieces)
      file.data = Buffer.concat([file.data.subarray(0, at), written])
      return { bytesWritten: written.length }
    }),
    read: async (into: Buffer, offset: number, length: number, at: number) => await act(() =>
      ({ bytesRead: disk.find(name).data.copy(into, offset, at, at + length) })),
    datasync: async () => await act(() => { disk.find(name).flushed = disk.find(name).data }),
    sync: async () => await act(() => disk.flushNames(name)),
    truncate: async (length: number) => await act(() => {
      const file = disk.find(name)
      file.data = file.data.subarray(0, length)
    }),
    close: async () => {},
    [Symbol.asyncDispose]: async () => {}
  }
}

const CALLS = {
  readdir: async (folder: string) => await act(() => disk.list(folder)),
  readFile: async (name: string, encoding?: string) => await act(() =>
    encoding === undefined ? disk.find(name).data : disk.find(name).data.toString()),
  writeFile: async (name: string, data: string | Buffer, { flush = false } = {}) =>
    await act(() => disk.write(name, Buffer.from(data), flush)),
  rename: async (from: string, to: string) => await act(() => disk.rename(from, to)),
  rm: async (name: string) => await act(() => disk.remove(name)),
  stat: async (name: string) => await act(() => ({ size: disk.find(name).data.length })),
  open: async (name: string, flags: string) => await act(() => {
    if (flags === 'wx') disk.write(name, Buffer.alloc(0))
    return openFile(name)
  })
}

for (const [name, call] of Object.entries(CALLS)) {
  const real = (fsPromises as unknown as Record<string, (...args: unknown[]) => unknown>)[name]!
  Object.assign(fsPromises, {
    [name]: (...args: unknown[]) => String(args[0]).startsWith(ROOT) ? (call as typeof real)(...args) : real(...args)
  })
}
syncBuiltinESMExports()
