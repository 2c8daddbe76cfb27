import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { mountSmallDisk } from './small-disk.ts'

/** Set in the process that may mount: its mounts vanish with it, whatever ends it. */
const INSIDE = 'MILLRACE_TEST_SMALL_DISK'

if (process.env[INSIDE] !== undefined) {
  process.stdout.write(JSON.stringify(await cutPower(process.env[INSIDE])))
} else {
  t.test('what was not flushed is gone after the power was cut, and what was flushed is there', async (t) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'millrace-small-disk-'))
    t.teardown(async () => await rm(folder, { recursive: true, force: true }))
    const { stdout } = await promisify(execFile)('unshare', [
      '--mount', '--propagation', 'private', process.execPath, import.meta.filename
    ], { env: { PATH: process.env.PATH, [INSIDE]: folder } }).catch(() => ({ stdout: 'null' }))
    const found = JSON.parse(stdout) as Awaited<ReturnType<typeof cutPower>>

    const options = found === null ? { skip: 'no ext4 can be mounted on a loop device here' } : {}
    t.same(found, { flushed: 'flushed', unflushed: '', refused: true }, options)
  })
}

/** @returns what is on the disk afterwards; null where that cannot be tried. */
async function cutPower (folder: string): Promise<{ flushed: string, unflushed: string, refused: boolean } | null> {
  const disk = await mountSmallDisk(folder)
  if (disk.power === null) return null
  await writeFile(path.join(folder, 'unflushed'), 'unflushed')
  await writeFile(path.join(folder, 'flushed'), 'flushed', { flush: true })
  await disk.power.cut()
  const refused = await writeFile(path.join(folder, 'late'), '').then(() => false, () => true)
  await disk.power.restore()
  const read = async (name: string): Promise<string> => await readFile(path.join(folder, name), 'utf8').catch(() => '')
  const found = { flushed: await read('flushed'), unflushed: await read('unflushed'), refused }
  await disk.unmount()
  return found
}
