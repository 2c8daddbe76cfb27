import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import type { TestContext } from '../../support/test-context.ts'
import { FILE_SYSTEM_NAMES, type PowerDiskOptions } from './power-disk.ts'
import { mountSmallDisk } from './small-disk.ts'

interface Found {
  flushed: string
  /** Bytes that were kept without being flushed. */
  unflushed: number
  refused: boolean
}

const UNFLUSHED_BYTES = 2_000_000

/** Set in the process that may mount: its mounts vanish with it, whatever ends it. */
const INSIDE = 'MILLRACE_TEST_SMALL_DISK'

if (process.env[INSIDE] !== undefined) {
  const { folder, ...options } = JSON.parse(process.env[INSIDE]) as PowerDiskOptions & { folder: string }
  process.stdout.write(JSON.stringify(await cutPower(folder, options)))
} else {
  for (const fileSystem of FILE_SYSTEM_NAMES) {
    t.test(`${fileSystem}: what was not flushed is gone after the power was cut, and what was flushed is there`, async (t) => {
      const found = await cutPowerInside(t, { fileSystem })
      t.same(found, { flushed: 'flushed', unflushed: 0, refused: true }, skipWithout(found, fileSystem))
    })
  }

  t.test('blocks that were not flushed are kept by chance, and what was flushed is there', async (t) => {
    const found = await cutPowerInside(t, { unflushed: 'random' })
    const options = skipWithout(found, 'ext4')
    t.match(found, { flushed: 'flushed', refused: true }, options)
    const { unflushed = 0 } = found ?? {}
    t.ok(unflushed > 0 && unflushed < UNFLUSHED_BYTES, `${unflushed} bytes are kept`, options)
  })
}

async function cutPowerInside (t: TestContext, options: PowerDiskOptions): Promise<Found | null> {
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-small-disk-'))
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  const { stdout } = await promisify(execFile)('unshare', [
    '--mount', '--propagation', 'private', process.execPath, import.meta.filename
  ], { env: { PATH: process.env.PATH, [INSIDE]: JSON.stringify({ folder, ...options }) } }).catch(() => ({ stdout: 'null' }))
  return JSON.parse(stdout) as Found | null
}

function skipWithout (found: Found | null, fileSystem: string): { skip?: string } {
  return found === null ? { skip: `no ${fileSystem} can be mounted on a loop device here` } : {}
}

/** @returns the content of the disk afterwards; null where that cannot be tried. */
async function cutPower (folder: string, options: PowerDiskOptions): Promise<Found | null> {
  const disk = await mountSmallDisk(folder, options)
  if (disk.power === null) return null
  // Known and flushed: later overwrites may be kept in part.
  await writeFile(path.join(folder, 'unflushed'), Buffer.alloc(UNFLUSHED_BYTES), { flush: true })
  await writeFile(path.join(folder, 'unflushed'), Buffer.alloc(UNFLUSHED_BYTES, 'x'), { flag: 'r+' })
  await writeFile(path.join(folder, 'flushed'), 'flushed', { flush: true })
  await disk.power.cut()
  const refused = await writeFile(path.join(folder, 'late'), '').then(() => false, () => true)
  await disk.power.restore()
  const read = async (name: string): Promise<string> => await readFile(path.join(folder, name), 'utf8').catch(() => '')
  const found = { flushed: await read('flushed'), unflushed: (await read('unflushed')).replaceAll('\0', '').length, refused }
  await disk.unmount()
  return found
}
