import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, mkdtemp, open, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { createLogger } from '../../platform/logger.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { isFlushedWithin, watchFlushes } from '../../test/support/watch-flushes.ts'
import type { OutgoingMessage } from '../publish/acknowledged-publisher.ts'
import { listSegments, segmentPath, SegmentWriter } from './segment-writer.ts'
import { tryLockFolder } from './spool-folders.ts'
import { Spool } from './spool.ts'

const logger = createLogger({ component: 'test', level: 'silent' })

async function createRoot (t: { teardown (run: () => unknown): unknown }): Promise<string> {
  const root = await mkdtemp(path.join(tmpdir(), 'millrace-test-spool-'))
  t.teardown(async () => await rm(root, { recursive: true, force: true }))
  return root
}

async function openSpool (folder: string, maxBytes = 1e9): Promise<Spool> {
  const lock = tryLockFolder(folder)
  if (lock === null) throw new Error('locked')
  return await Spool.open({ folder, lock, maxBytes, logger })
}

function buildMessage (ordinal: number, bytes = 100): OutgoingMessage {
  const headers = { a: String(ordinal) }
  return { subject: `events.live.${ordinal % 3}`, id: `m-${ordinal}`, headers, payload: Buffer.alloc(bytes, ordinal) }
}

async function drainAll (spool: Spool): Promise<OutgoingMessage[]> {
  const messages: OutgoingMessage[] = []
  const take = async (message: OutgoingMessage): Promise<void> => {
    messages.push({ ...message, payload: Buffer.from(message.payload) })
  }
  while (await spool.drainSome(take) > 0);
  return messages
}

t.test('messages come back in order, byte for byte, and leave an empty folder', async (t) => {
  const spool = await openSpool(await createRoot(t))
  const sent = Array.from({ length: 500 }, (_, i) => buildMessage(i, i * 97))

  await Promise.all(sent.map(async (message) => await spool.append(message)))
  t.notOk(spool.isEmpty)
  const drained = await drainAll(spool)

  t.same(drained, sent)
  t.ok(spool.isEmpty)
  t.equal(spool.bytes, 0)
})

t.test('a message that is appended while the place of the one before it is saved is counted', async (t) => {
  const root = await createRoot(t)
  const spool = await openSpool(root)
  await spool.append(buildMessage(1))
  // Whoever writes to a pipe waits for its reader.
  const place = path.join(root, 'position')
  execFileSync('mkfifo', [place])
  const publishing = Promise.withResolvers<void>()
  const draining = spool.drainSome(async () => { publishing.resolve() })
  await publishing.promise
  await spool.append(buildMessage(2))
  t.match(await readFile(place, 'utf8'), /segment/)
  t.equal(await draining, 1)
  t.notOk(spool.isEmpty, 'updates of persons go behind it, and the watermark waits for it')
  await rm(place)
  t.match(await drainAll(spool), [{ id: 'm-2' }])
  t.ok(spool.isEmpty)
})

t.test('a message that is appended at the moment when the one before it is durable waits for no other', async (t) => {
  const writer = new SegmentWriter(await createRoot(t), 1, () => {})
  t.teardown(async () => await writer.rotate())
  let durable = 0
  const appending = (async () => {
    for (; durable < 3; durable++) await writer.append(buildMessage(durable))
  })()

  await waitFor(() => durable === 3)
  await appending
  t.ok(writer.position.offset > 300)
})

t.test('a successor continues where a process stopped, and repeats what was not acknowledged', async (t) => {
  const root = await createRoot(t)
  const first = await openSpool(root)
  for (let i = 0; i < 20; i++) await first.append(buildMessage(i, 1_000_000))
  let taken = 0
  await t.rejects(async () => {
    while (true) await first.drainSome(async () => { if (++taken > 10) throw new Error('unavailable') })
  })
  await first.close()

  const second = await openSpool(root)
  const drained = await drainAll(second)

  t.ok(drained.length >= 10 && drained.length < 20)
  t.equal(drained.at(-1)?.id, 'm-19')
  t.same(await listSegments(root), [])
})

t.test('a saved place is never applied to a later segment', async (t) => {
  const root = await createRoot(t)
  for (let life = 0; life < 3; life++) {
    const spool = await openSpool(root)
    for (let i = 0; i < 3; i++) await spool.append(buildMessage(i))
    t.equal((await drainAll(spool)).length, 3)
    await spool.close()
  }
})

t.test('a torn last record is dropped, the ones before it are not', async (t) => {
  const root = await createRoot(t)
  const first = await openSpool(root)
  for (let i = 0; i < 3; i++) await first.append(buildMessage(i))
  await first.close()
  const [segment = 0] = await listSegments(root)
  const file = await open(segmentPath(root, segment), 'r+')
  await file.truncate((await file.stat()).size - 5)
  await file.close()

  const drained = await drainAll(await openSpool(root))

  t.same(drained.map(({ id }) => id), ['m-0', 'm-1'])
})

t.test('damage in the middle costs only the damaged record, and the segment is kept for inspection', async (t) => {
  const root = await createRoot(t)
  const first = await openSpool(root)
  for (let i = 0; i < 5; i++) await first.append(buildMessage(i))
  await first.close()
  const [segment = 0] = await listSegments(root)
  const file = await open(segmentPath(root, segment), 'r+')
  const recordBytes = (await file.stat()).size / 5
  await file.write(Buffer.from('xx'), 0, 2, Math.floor(recordBytes * 2.5))
  await file.close()

  const drained = await drainAll(await openSpool(root))

  t.same(drained.map(({ id }) => id), ['m-0', 'm-1', 'm-3', 'm-4'])
  t.ok((await readdir(root)).some((name) => name.endsWith('.damaged')))
})

t.test('a record cut to any length is never taken for a whole one', async (t) => {
  const root = await createRoot(t)
  const first = await openSpool(root)
  await first.append(buildMessage(1, 40))
  await first.close()
  const [segment = 0] = await listSegments(root)
  const size = (await stat(segmentPath(root, segment))).size

  for (let length = size - 1; length > 0; length -= 7) {
    const file = await open(segmentPath(root, segment), 'r+')
    await file.truncate(length)
    await file.close()
    const spool = await openSpool(root)
    await spool.append(buildMessage(2))
    t.same((await drainAll(spool)).map(({ id }) => id), ['m-2'])
    await spool.close()
    await appendFile(segmentPath(root, segment), Buffer.alloc(length))
  }
})

t.test('a full spool refuses and keeps what it has', async (t) => {
  const spool = await openSpool(await createRoot(t), 1000)
  t.teardown(async () => await spool.close())
  await spool.append(buildMessage(1, 800))

  await t.rejects(spool.append(buildMessage(2, 800)), { code: 'MILLRACE_SPOOL_FULL' })

  t.same((await drainAll(spool)).map(({ id }) => id), ['m-1'])
  await spool.append(buildMessage(3, 800))
})

t.test('a folder belongs to one process until that process is gone, even by kill -9', async (t) => {
  const root = await createRoot(t)
  const script = `import { tryLockFolder } from '${import.meta.dirname}/spool-folders.ts'
    console.log(tryLockFolder(process.argv[1]) !== null); setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, root], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  const [line] = await once(child.stdout, 'data') as [Buffer]
  t.equal(line.toString().trim(), 'true')

  t.equal(tryLockFolder(root), null)
  child.kill('SIGKILL')
  await once(child, 'exit')

  const lock = tryLockFolder(root)
  t.ok(lock !== null)
  t.equal(tryLockFolder(root), null)
  lock?.release()
})

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
