import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import t from 'tap'
import { PLANTED_BUGS } from './bugs.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')

t.test('each bug can still be planted, and its test exists', async (t) => {
  for (const { commit, file, sound, test } of PLANTED_BUGS) {
    const text = await readFile(path.join(ROOT, file), 'utf8')
    t.equal(text.split(sound).length - 1, 1, `${commit} in ${file}`)
    t.ok(existsSync(path.join(ROOT, test)), test)
  }
})
