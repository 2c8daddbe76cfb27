import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { createLogger } from '../../platform/logger.ts'
import { isFlushedWithin, watchFlushes } from '../../test/support/watch-flushes.ts'
import { tryLockFolder } from './spool-folders.ts'
import { Spool } from './spool.ts'

t.test('a message is accepted when its segment was flushed', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'millrace-test-spool-flush-'))
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  const lock = tryLockFolder(folder)
  if (lock === null) throw new Error('locked')
  const logger = createLogger({ component: 'test', level: 'silent' })
  const spool = await Spool.open({ folder, lock, maxBytes: 1e9, logger })
  const watch = await watchFlushes(t, process.pid)
  const options = watch === null ? { skip: 'this machine has no strace, or does not let it look at a process' } : {}

  const appends: { from: number, to: number }[] = []
  for (let ordinal = 0; ordinal < 10; ordinal++) {
    const from = Date.now()
    await spool.append({ subject: 'events.live.0', id: `m-${ordinal}`, headers: {}, payload: Buffer.alloc(100) })
    appends.push({ from, to: Date.now() })
  }

  const flushes = await watch?.end() ?? []
  await spool.close()
  const segment = new RegExp(`^${folder}/\\d+\\.segment$`)
  t.same(appends.filter((append) => !isFlushedWithin(flushes, segment, append)), [], options)
})
