import path from 'node:path'
import t from 'tap'
import { collectGarbage } from '../test/support/collect-garbage.ts'
import { tryLockFile } from './durable-folder.ts'

t.test('a file has one lock, until that is released', async (t) => {
  const file = path.join(t.testdir(), 'lock')

  const lock = tryLockFile(file)
  t.equal(tryLockFile(file), null)
  lock?.release()
  lock?.release()

  const next = tryLockFile(file)
  t.not(next, null)
  next?.release()
})

t.test('a lock that nobody refers to any more is still held', async (t) => {
  const folder = t.testdir()
  const files = Array.from({ length: 20 }, (_, i) => path.join(folder, String(i)))

  t.same(files.map((file) => tryLockFile(file) !== null), files.map(() => true))
  for (let i = 0; i < 3; i++) {
    collectGarbage()
    await new Promise(setImmediate)
  }

  t.same(files.map((file) => tryLockFile(file)), files.map(() => null))
})

t.test('tells why a file cannot be locked', async (t) => {
  t.throws(() => tryLockFile(path.join(t.testdir(), 'absent', 'lock')), { code: 'ERR_SQLITE_ERROR' })
})
