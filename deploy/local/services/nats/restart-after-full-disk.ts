import { statSync } from 'node:fs'
import { appendFile, open, rm } from 'node:fs/promises'
import path from 'node:path'
import { type ManagedProcess } from '../../processes/spawn-process.ts'

/** How ENOSPC and EDQUOT are worded in the logs of programs written in Go. */
const DISK_FULL = /no space left on device|disk quota exceeded/

const LOOK_EVERY_MS = 1000

/** Room that makes a new start worth while, in bytes: one block file of a stream. */
const ROOM_BYTES = 8_388_608

/** Of the log at a time; what is beyond is read by the next look. */
const MAX_READ_BYTES = 1_048_576

/**
 * Ends a nats-server whose disk was full, once there is room again; anyone who keeps it running restarts it.
 *
 * nats-server (2.15.1 for one) does not write to a stream again after one write found no room: publishes stay without
 * an answer until it is restarted, however much room there is. What it acknowledged is on the disk.
 *
 * @param folder  Where it stores its streams.
 */
export function restartAfterFullDisk (server: ManagedProcess, folder: string): void {
  let isStuck = false
  let isLooking = false
  // What an earlier process left does not count.
  let position = statSync(server.logFile).size
  const look = async (): Promise<void> => {
    const { text, end } = await readFrom(server.logFile, position)
    position = end
    isStuck ||= DISK_FULL.test(text)
    if (!isStuck || !await hasRoom(folder)) return
    clearInterval(timer)
    await appendFile(server.logFile, 'millrace: the disk has room again; nats-server is restarted, ' +
      'because it does not write to a stream again of which a write failed\n')
    await server.stop()
  }
  const timer = setInterval(() => {
    if (isLooking) return
    isLooking = true
    // Nothing can be read or written on a broken disk: the next look may.
    void look().catch(() => {}).finally(() => { isLooking = false })
  }, LOOK_EVERY_MS)
  timer.unref()
  void server.exited.then(() => clearInterval(timer))
}

async function readFrom (file: string, from: number): Promise<{ text: string, end: number }> {
  await using handle = await open(file, 'r')
  const { size } = await handle.stat()
  // A rotated log starts over.
  const start = size < from ? 0 : from
  const buffer = Buffer.alloc(Math.min(size - start, MAX_READ_BYTES))
  const { bytesRead } = await handle.read({ buffer, position: start })
  // A line that was only half there is read again.
  const end = start + buffer.subarray(0, bytesRead).lastIndexOf('\n') + 1
  return { text: buffer.toString('utf8', 0, end - start), end }
}

async function hasRoom (folder: string): Promise<boolean> {
  const file = path.join(folder, 'room')
  try {
    await using handle = await open(file, 'w')
    await handle.write(Buffer.alloc(ROOM_BYTES))
    await handle.sync()
    return true
  } catch {
    return false
  } finally {
    await rm(file, { force: true })
  }
}
