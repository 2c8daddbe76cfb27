/**
 * Every test that needs no service, in this one process: loading the runner and the sources again for each of some
 * 150 files took longer than their assertions. `kinds.ts` tells which these are. A failure names its own file.
 *
 * What a test here changes for its process (settings, signals, a global) it puts back: the files share it.
 */
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { createTestKinds, listTests } from './kinds.ts'

const { kindOf } = createTestKinds()
for (const file of await listTests()) {
  if (kindOf(file) !== 'unit') continue
  await import(pathToFileURL(path.resolve(import.meta.dirname, '..', file)).href)
  // Comes after the tests of the file: loading the next one would hold up what they time.
  await t.test(`end of ${file}`, async () => {})
}
