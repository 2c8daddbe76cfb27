import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import t from 'tap'
import { createLogger, type Logger } from '../../platform/logger.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import type { OutgoingMessage } from '../publish/acknowledged-publisher.ts'
import { drainOrphanedSpools, openOwnSpool, tryLockFolder } from './spool-folders.ts'
import { Spool } from './spool.ts'
import { decodeSpoolRecord, encodeSpoolRecord, MAGIC } from './spool-record.ts'

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

function buildMessage (id: string, bytes = 100): OutgoingMessage {
  return { subject: 'events.live.0', id, headers: {}, payload: Buffer.alloc(bytes, id) }
}

/** Begins to drain the orphans of a folder, as every ten seconds, and waits for all of them. */
async function drainOrphans (root: string, drain: (spool: Spool) => Promise<void>, takesRefused = true): Promise<void> {
  const draining = new Map<string, Promise<void>>()
  await drainOrphanedSpools({ root, maxBytes: 1e9, logger, mayTakeRefused: () => takesRefused, draining }, drain)
  await Promise.all(draining.values())
}

async function drainIds (spool: Spool): Promise<string[]> {
  const ids: string[] = []
  while (await spool.drainSome(async ({ id }) => { ids.push(id) }) > 0);
  return ids
}

/**
 * Runs a script with `append(id, bytes)` in a process that the system limits.
 *
 * @param limits  Commands of the shell before it.
 * @returns of each message its id when it was appended, and the code of the error when it was not.
 */
async function runLimited (limits: string, folder: string, script: string): Promise<string[]> {
  const code = `
    import { createLogger } from '${import.meta.dirname}/../../platform/logger.ts'
    import { tryLockFolder } from '${import.meta.dirname}/spool-folders.ts'
    import { Spool } from '${import.meta.dirname}/spool.ts'
    const folder = process.argv[1]
    const logger = createLogger({ component: 'test', level: 'silent' })
    const spool = await Spool.open({ folder, lock: tryLockFolder(folder), maxBytes: 1e9, logger })
    const outcomes = []
    const append = async (id, bytes) => {
      const message = { subject: 'events.live.0', id, headers: {}, payload: Buffer.alloc(bytes, id) }
      outcomes.push(await spool.append(message).then(() => id, (error) => error.code))
    }
    ${script}
    await spool.close()
    console.log(JSON.stringify(outcomes))`
  // Without what the runner adds to its processes, which writes files of its own.
  const limited = `unset NODE_OPTIONS NODE_V8_COVERAGE; ${limits}; exec "$0" --expose-gc --input-type=module -e "$@"`
  const child = spawn('bash', ['-c', limited, process.execPath, code, folder], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [printed, [exitCode]] = await Promise.all([child.stdout.toArray(), once(child, 'exit')])
  if (exitCode !== 0) throw new Error(`the process ended with ${String(exitCode)}`)
  return JSON.parse(Buffer.concat(printed as Buffer[]).toString()) as string[]
}

t.test('a disk that is full in the middle of a write keeps what was acknowledged and nothing else', async (t) => {
  const root = await createRoot(t)
  // A bound of the system on the size of files (200 blocks) fails a write half-way, as a full disk does.
  const outcomes = await runLimited('trap "" XFSZ; ulimit -f 200', root, `
    for (let i = 0; i < 12; i++) await append('m-' + i, i === 11 ? 100 : 30_000)`)

  const kept = outcomes.filter((outcome) => outcome.startsWith('m-'))
  t.equal(outcomes[0], 'm-0')
  t.ok(outcomes.includes('EFBIG'), 'some were refused')
  t.equal(outcomes.at(-1), 'm-11', 'a small one fits into what was cut off')
  t.same(await drainIds(await openSpool(root)), kept)
})

t.test('a folder that cannot be written refuses, and is used again when it can be', async (t) => {
  const root = await createRoot(t)
  const folder = path.join(root, '0')
  const spool = await openSpool(folder)
  await rename(folder, `${folder}.moved`)

  await t.rejects(spool.append(buildMessage('lost')), { code: 'ENOENT' })
  t.ok(spool.isEmpty)

  await rename(`${folder}.moved`, folder)
  await spool.append(buildMessage('kept'))
  t.same(await drainIds(spool), ['kept'])
})

t.test('a process out of file descriptors refuses, and spools again when it has some', async (t) => {
  const root = await createRoot(t)
  const outcomes = await runLimited('ulimit -n 100', root, `
    const { closeSync, openSync } = await import('node:fs')
    const taken = []
    const takeAll = () => { try { while (true) taken.push(openSync('/dev/null')) } catch {} }
    // What the start of the process had open may be closed a moment later.
    for (let quiet = 0, count = -1; quiet < 20; quiet = taken.length === count ? quiet + 1 : 0) {
      count = taken.length
      takeAll()
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    // With one descriptor the segment can be created, and its folder cannot be synced.
    closeSync(taken.pop())
    await append('refused', 100)
    taken.forEach((descriptor) => closeSync(descriptor))
    // A file that was not closed ends the process when its memory is collected.
    globalThis.gc()
    await new Promise((resolve) => setTimeout(resolve, 50))
    await append('kept', 100)`)

  t.same(outcomes, ['EMFILE', 'kept'])
  t.same(await drainIds(await openSpool(root)), ['kept'])
})

t.test('messages that were refused are tried again without room for a copy, and none is there twice', async (t) => {
  const root = await createRoot(t)
  const gone = await openOwnSpool({ root, maxBytes: 1e9, logger })
  await gone.writeRefusedRecord(buildMessage('huge', 500_000), 'too large')
  await gone.close()
  const outcomes = await runLimited('trap "" XFSZ; ulimit -f 200', path.join(root, '1'), `
    const orphan = folder + '/../0'
    const opening = Spool.open({ folder: orphan, lock: tryLockFolder(orphan), maxBytes: 0, logger })
    outcomes.push(await opening.then(() => 'opened', (error) => error.code))
    const { readdirSync, readlinkSync } = await import('node:fs')
    const target = (descriptor) => { try { return readlinkSync('/dev/fd/' + descriptor) } catch { return '' } }
    outcomes.push(...readdirSync('/dev/fd').map(target).filter((name) => name.includes('.segment')))`)

  t.same(outcomes, ['opened'])
  t.same((await readdir(gone.folder)).sort(), ['000000000001.segment', 'lock'])
  t.same(await drainIds(await openSpool(gone.folder)), ['huge'])
})

t.test('a message larger than a portion is read whole, between small ones', async (t) => {
  const spool = await openSpool(await createRoot(t))
  const sent = [['small', 10], ['large', 9_000_000], ['last', 10]] as const
  for (const [id, bytes] of sent) await spool.append(buildMessage(id, bytes))
  const sizes: number[] = []

  while (await spool.drainSome(async ({ payload }) => { sizes.push(payload.length) }) > 0);

  t.same(sizes, [10, 9_000_000, 10])
})

t.test('a torn position file repeats messages rather than losing one', async (t) => {
  const root = await createRoot(t)
  const first = await openSpool(root)
  for (const id of ['a', 'b']) await first.append(buildMessage(id))
  await first.close()
  await writeFile(path.join(root, 'position'), '{"segm')

  t.same(await drainIds(await openSpool(root)), ['a', 'b'])
})

t.test('a message that no stream takes is moved to a file of its own', async (t) => {
  const root = await createRoot(t)
  const spool = await openSpool(root)
  const message = buildMessage('huge', 5000)

  await spool.writeRefusedRecord(message, 'too large')

  const bytes = await readFile(path.join(root, 'refused-huge.record'))
  t.match(decodeSpoolRecord(bytes, 0), { kind: 'message', message })
  t.ok(spool.isEmpty && !spool.isSettled, 'the watermark does not pass it')
})

t.test('messages that no stream takes take room from the others, also in the next process', async (t) => {
  const root = await createRoot(t)
  const first = await openSpool(root, 10_000)
  await first.append(buildMessage('huge', 7000))
  await first.drainSome(async (message) => await first.writeRefusedRecord(message, 'too large'))
  await first.drainSome(async () => {})
  // A second try, as after a failure in between, is the same file.
  await first.writeRefusedRecord(buildMessage('huge', 7000), 'too large')

  t.equal(first.bytes, 0)
  t.ok(first.refusedBytes > 7000 && first.refusedBytes < 7200, `${first.refusedBytes} bytes`)
  await t.rejects(first.append(buildMessage('other', 4000)), { code: 'MILLRACE_SPOOL_FULL' })
  await first.append(buildMessage('small', 2000))
  await first.close()
  await writeFile(path.join(root, 'refused-broken.record'), 'no record')

  const second = await openSpool(root, 10_000)

  t.equal(second.refusedBytes, 9)
  t.same(await drainIds(second), ['small', 'huge'])
})

t.test('a message that no stream took is tried again by the process that opens the folder next', async (t) => {
  const root = await createRoot(t)
  const first = await openSpool(root)
  await first.writeRefusedRecord(buildMessage('huge', 5000), 'too large')
  await first.append(buildMessage('small'))
  await first.close()
  await writeFile(path.join(root, 'refused-broken.record'), 'no record')

  const second = await openSpool(root)

  t.notOk(second.isEmpty)
  t.same(await drainIds(second), ['small', 'huge'])
  t.ok(second.isEmpty && !second.isSettled, 'what cannot be read stays')
  t.same((await readdir(root)).filter((name) => name.startsWith('refused')), ['refused-broken.record'])
})

t.test('spools of processes that are gone are taken over, those of living ones are not', async (t) => {
  const root = await createRoot(t)
  const open = async (): Promise<Spool> => await openOwnSpool({ root, maxBytes: 1e9, logger })
  const gone = [await open(), await open()]
  const living = await open()
  for (const [index, spool] of [...gone, living].entries()) await spool.append(buildMessage(`of ${index}`))
  for (const spool of gone) await spool.close()
  await writeFile(path.join(root, 'notes'), 'of an operator')

  const adopted: string[] = []
  const drain = async (spool: Spool): Promise<void> => {
    await t.rejects(spool.append(buildMessage('new')), { code: 'MILLRACE_SPOOL_FULL' })
    adopted.push(...await drainIds(spool))
  }
  await drainOrphans(root, drain)

  t.same(adopted.sort(), ['of 0', 'of 1'])
  await drainOrphans(root, async () => { t.fail('nothing is left') })
  t.same(await drainIds(living), ['of 2'])
  t.same((await readdir(root)).sort(), ['0', '1', '2', 'notes'])
})

t.test('an orphan that waits for a full stream holds up no other: failed ones are tried again, new ones adopted', async (t) => {
  const root = await createRoot(t)
  const open = async (): Promise<Spool> => await openOwnSpool({ root, maxBytes: 1e9, logger })
  const spools = [await open(), await open(), await open(), await open()]
  const folders = spools.map(({ folder }) => folder)
  for (const [index, spool] of spools.entries()) await spool.append(buildMessage(`of ${index}`))
  for (const spool of spools.slice(0, 3)) await spool.close()
  const warnings: { err?: Error, folder: string }[] = []
  const warn = (facts: { err?: Error, folder: string }): void => { warnings.push(facts) }
  const draining = new Map<string, Promise<void>>()
  const options = {
    root, maxBytes: 1e9, logger: { ...logger, warn } as unknown as Logger, mayTakeRefused: () => true, draining
  }
  const { promise: hasRoom, resolve: makeRoom } = Promise.withResolvers<void>()
  const drained: string[] = []
  let round = 1
  const drain = async (spool: Spool): Promise<void> => {
    const index = folders.indexOf(spool.folder)
    if (index === 0) await hasRoom
    else if (round === 1) throw new Error(`cannot drain ${index}`)
    drained.push(...await drainIds(spool))
  }

  await drainOrphanedSpools(options, drain)
  await waitFor(() => draining.size === 1)
  t.same(warnings.flatMap(({ err, folder }) => err === undefined ? [] : [[folder, err.message]]).sort(),
    [[folders[1], 'cannot drain 1'], [folders[2], 'cannot drain 2']])
  t.same(drained, [])
  round++
  await spools[3]?.close()
  await drainOrphanedSpools(options, drain)
  await waitFor(() => draining.size === 1)
  t.same(drained.sort(), ['of 1', 'of 2', 'of 3'])
  makeRoom()
  await Promise.all(draining.values())

  t.equal(drained.at(-1), 'of 0')
  t.equal(warnings.filter(({ folder }) => folder === folders[0]).length, 1, 'it was taken over once')
})

t.test('an orphaned spool with refused messages alone is opened only when the stream may take them', async (t) => {
  const root = await createRoot(t)
  const gone = await openOwnSpool({ root, maxBytes: 1e9, logger })
  await gone.writeRefusedRecord(buildMessage('huge', 5000), 'too large')
  await gone.close()
  const drained: string[] = []
  const drain = async (spool: Spool): Promise<void> => { drained.push(...await drainIds(spool)) }

  await drainOrphans(root, drain, false)
  t.same(drained, [])
  t.ok((await readdir(gone.folder)).includes('refused-huge.record'))
  await drainOrphans(root, drain)

  t.same(drained, ['huge'])
})

t.test('bytes that are no record are damage, and tell where the next one may begin', async (t) => {
  const record = Buffer.concat(encodeSpoolRecord(buildMessage('m')))
  const changed = (at: number, value: number): Buffer => {
    const bytes = Buffer.from(record)
    bytes.writeUInt32LE(value, at)
    return bytes
  }
  const next = record.length
  const cases: [string, Buffer, object][] = [
    ['another magic', changed(0, 0), { kind: 'damaged', next }],
    ['a length that no message has', changed(4, 0xffffffff), { kind: 'damaged', next }],
    ['a length of nothing', changed(4, 0), { kind: 'damaged', next }],
    ['another checksum', changed(8, 0), { kind: 'damaged', next }]
  ]
  for (const [name, bytes, decoded] of cases) {
    t.same(decodeSpoolRecord(Buffer.concat([bytes, record]), 0), decoded, name)
  }

  t.same(decodeSpoolRecord(MAGIC.subarray(0, 2), 0), { kind: 'incomplete', neededBytes: 12 })
  t.same(decodeSpoolRecord(Buffer.from('xx'), 0), { kind: 'damaged', next: -1 })
  t.same(decodeSpoolRecord(record.subarray(0, 20), 0), { kind: 'incomplete', neededBytes: record.length })
})
