/**
 * The driver `postgres` 3.4.9 with seven defects mended while it is loaded. All but the last show when a server dies,
 * and each alone would break a promise:
 *
 * - Writing to a connection that is gone throws outside of any promise, which ends the process (issues 1154 and 1208
 *   of the driver). Mended: the query fails with CONNECTION_CLOSED.
 * - A connection that closes with a write scheduled never schedules one again: after it reconnected, its queries hang
 *   for ever. Mended: closing forgets the scheduled write and its bytes.
 * - A transaction whose connection closed goes on to use it, and when the driver has connected it again for somebody
 *   else, its statements, its COMMIT or ROLLBACK land in *their* transaction. Mended: they fail.
 * - A connection that closes keeps the query that it was busy with, which by then has failed (issue 1097, and pull
 *   request 1142). What the server says when it is called again is taken for an answer to that one: a server that
 *   does not let anybody in is called in a loop without a pause, and whoever asks waits for ever, as does `end()`.
 *   Mended: closing forgets the query and what had come of its answer.
 * - A server that hangs up before it said a word (a balancer without servers behind it) is called in the same loop.
 *   Mended: the query fails with CONNECTION_CLOSED. Not when several hosts are given: the next is for another one.
 * - A connection that closes while the driver reads the types of arrays over it ends the process. Mended: what failed
 *   is only the query for which it connected.
 * - A `COPY ... TO STDOUT` pauses its connection when it is read too slowly, and only reading on resumes it: when the
 *   last of the data comes in such a moment, or the reader gives up, the next query hangs for ever. Mended: the end of
 *   the stream resumes the connection, and what comes after a reader gave up is passed over.
 *
 * Nothing on the disk is changed. Another release of the driver whose text differs is refused at start; remove this
 * file when one has these mended.
 */
import { registerHooks } from 'node:module'

/** Text in a file of the driver, how often it is there, and what takes its place. */
interface Mend {
  file: string
  text: string
  times: number
  by: string
}

const MENDS: readonly Mend[] = [
  {
    file: 'connection.js',
    text: 'const x = socket.write(chunk, fn)',
    times: 1,
    by: `if (socket === null) {
      chunk = nextWriteTimer = null
      error(Errors.connection('CONNECTION_CLOSED', options, socket))
      return false
    }
    const x = socket.write(chunk, fn)`
  },
  {
    file: 'connection.js',
    text: '\n    clearImmediate(nextWriteTimer)\n',
    times: 2,
    by: '\n    clearImmediate(nextWriteTimer)\n    chunk = nextWriteTimer = null\n'
  },
  {
    file: 'connection.js',
    text: '    if (initial)\n      return reconnect()\n\n    !hadError && (query || sent.length) && error(',
    times: 1,
    by: `    const isNextHost = initial && options.host.length > 1
    !isNextHost && !hadError && (query || initial || sent.length) && error(`
  },
  {
    file: 'connection.js',
    text: '    closedTime = performance.now()\n',
    times: 1,
    by: `    query = results = errorResponse = null
    result = new Result()
    rows = 0
    if (isNextHost)
      return reconnect()

    closedTime = performance.now()\n`
  },
  { file: 'connection.js', text: 'errored(err)\n    while (', times: 1, by: 'errored(err)\n    query = null\n    while (' },
  {
    file: 'connection.js',
    text: "    onclose(connection, Errors.connection('CONNECTION_CLOSED', options, socket))\n",
    times: 1,
    by: `    onclose(connection, Errors.connection('CONNECTION_CLOSED', options, socket))
    ended && !initial && terminate()\n`
  },
  { file: 'connection.js', text: 'return fetchArrayTypes()\n', times: 1, by: 'return fetchArrayTypes().catch(noop)\n' },
  {
    file: 'connection.js',
    text: 'read() { socket.resume() }\n',
    times: 1,
    by: `read() { socket.resume() },
      destroy(error, callback) {
        if (stream === this) stream = null
        socket && socket.resume()
        callback(error)
      }
`
  },
  {
    file: 'index.js',
    text: 'connection.onclose = reject)',
    times: 1,
    by: 'connection.onclose = e => reject(lost = e))'
  },
  { file: 'index.js', text: 'let savepoints = 0\n', times: 1, by: 'let lost = null, savepoints = 0\n' },
  {
    file: 'index.js',
    text: 'q.catch(e => uncaughtError || (uncaughtError = e))\n',
    times: 1,
    by: 'q.catch(e => uncaughtError || (uncaughtError = e))\n        if (lost !== null) return q.reject(lost)\n'
  }
]

const folder = new URL('.', import.meta.resolve('postgres')).href
const mended = new Set<string>()
const hooks = registerHooks({
  load (url, context, nextLoad) {
    const loaded = nextLoad(url, context)
    const mends = MENDS.filter(({ file }) => url === folder + file)
    if (mends.length === 0) return loaded
    mended.add(url)
    return { ...loaded, source: mends.reduce(mend, String(Buffer.from(loaded.source as Uint8Array))) }
  }
})
const driver = await import('postgres')
hooks.deregister()
if (mended.size !== new Set(MENDS.map(({ file }) => file)).size) {
  throw new Error('the module "postgres" was loaded before its mends: import it from platform/postgres/mended-postgres.ts')
}

/** The driver; see above. */
export const postgres = driver.default

function mend (source: string, { file, text, times, by }: Mend): string {
  const parts = source.split(text)
  if (parts.length === times + 1) return parts.join(by)
  throw new Error(`${file} of the module "postgres" is not that of 3.4.9: check the mends in platform/postgres/mended-postgres.ts`)
}
