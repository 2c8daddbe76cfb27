import { execFile } from 'node:child_process'
import { chmod, mkdir, readFile, realpath, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { findMissingLibraries } from './find-missing-libraries.js'

/** A program of this machine that needs something else. */
async function alter (t: Test, from: string, to: string, name = 'program'): Promise<string> {
  const program = await readFile('/bin/true', 'latin1')
  const file = path.join(await realpath(t.testdir({})), name)
  await mkdir(path.dirname(file), { recursive: true })
  await writeFile(file, program.replaceAll(from, to), 'latin1')
  await chmod(file, 0o755)
  return file
}

const isLinux = process.platform === 'linux'

t.test('names what a program lacks before it is started', { skip: !isLinux }, async (t) => {
  t.equal(findMissingLibraries('/bin/true'), null)
  t.equal(findMissingLibraries(process.execPath), null)

  for (const [library, name] of [['liba.so.1', 'liba1'], ['lib7.so.2', 'lib7-2'], ['lib_.so.5', 'lib-5'], ['libm.so.9', 'libc6'], ['libz.so.9', 'zlib1g']] as const) {
    const file = await alter(t, 'libc.so.6', library)
    t.equal(findMissingLibraries(file), `${file} needs ${library}, which this machine lacks: apt-get install ${name} (Debian, Ubuntu)`)
  }
  const file = await alter(t, 'GLIBC_2.', 'GLIBC_9.')
  t.match(findMissingLibraries(file), /needs GLIBC_9\.\d+.*: this machine's libraries are too old/)
})

t.test('an installation whose own Node cannot run says so', { skip: !isLinux }, async (t) => {
  const file = await alter(t, 'libc.so.6', 'liba.so.1', `node_modules/node-linux-${process.arch}/bin/node`)
  const script = path.join(import.meta.dirname, 'find-missing-libraries.js')
  const installed = promisify(execFile)(process.execPath, [script], { cwd: path.resolve(file, '../../../..') })

  await t.rejects(installed, { code: 1, stderr: `millrace: ${file} needs liba.so.1, which this machine lacks: apt-get install liba1 (Debian, Ubuntu)\n` })
})
