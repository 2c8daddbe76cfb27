import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import chromium from '@sparticuz/chromium'

/** Among the leftovers of test runs, which git ignores; by version, so that an update is unpacked again. */
const FOLDER = path.join(import.meta.dirname, '..', '..', '.tap', `chromium-${readVersion()}`)

/**
 * Path of the browser, which its package brings compressed: it is unpacked by the first test that asks for it.
 *
 * The package would unpack it into the folder for temporary files and take the file for whole as soon as it exists,
 * while another test is still writing it. Here the whole folder gets its name when it is complete.
 */
export async function unpackBrowser (): Promise<string> {
  if (!existsSync(FOLDER)) await unpackInto(FOLDER)
  return path.join(FOLDER, 'chromium')
}

async function unpackInto (folder: string): Promise<void> {
  await mkdir(path.dirname(folder), { recursive: true })
  const unfinished = await mkdtemp(`${folder}-`)
  const { TMPDIR } = process.env
  process.env.TMPDIR = unfinished
  try {
    await chromium.executablePath()
    await rename(unfinished, folder)
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true })
    // Another test was faster.
    if (!existsSync(folder)) throw error
  } finally {
    if (TMPDIR === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = TMPDIR
  }
}

function readVersion (): string {
  const require = createRequire(import.meta.url)
  const main = require.resolve('@sparticuz/chromium')
  return (require(path.join(main, '..', '..', '..', 'package.json')) as { version: string }).version
}
