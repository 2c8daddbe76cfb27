import t from 'tap'
import { createLogger } from './json-log.ts'
import { findOpenLogins, readOptions } from './options.ts'
import { digestPassword } from './http/authenticate.ts'
import { waitFor } from './testing/wait-for.ts'

t.test('has a default for every option, and one login without a password', async (t) => {
  const options = readOptions([], {})

  t.match(options, {
    dataDir: 'chdb-data', port: 8123, host: '127.0.0.1', database: 'main', memoryBytes: 0, sendTimeoutSeconds: 60, logLevel: 'info'
  })
  t.same(options, { ...Object(options), logins: { default: digestPassword('') } })
  t.same(findOpenLogins({ default: digestPassword(''), other: digestPassword('x') }), ['default'])
})

t.test('reads options and passwords; analysts have a login when they have a password', async (t) => {
  const args = ['--data-dir=/data', '--port', '0', '--host', '0.0.0.0', '--user', 'me', '--database', 'shop', '--memory-bytes', '1000']
  const options = readOptions(args, { CHDB_SERVER_PASSWORD: 'a', CHDB_SERVER_ANALYST_PASSWORD: 'b' })

  t.match(options, { dataDir: '/data', port: 0, host: '0.0.0.0', database: 'shop', memoryBytes: 1000 })
  t.match(options, { logins: { me: digestPassword('a'), analyst: digestPassword('b') } })
})

t.test('names every option that is not valid', async (t) => {
  const read = (...args: string[]) => () => readOptions(args, {})

  t.throws(read('--port', '70000', '--memory-bytes', '1 GB', '--log-level', 'loud'), {
    name: 'StartError', message: /--log-level must be one of .*\n--port must be .* but is "70000"\n--memory-bytes must be .* but is "1 GB"/
  })
  t.throws(read('--send-timeout-seconds', '0'), { message: /--send-timeout-seconds must be a whole number from 1/ })
  t.throws(read('--prot', '1'), { message: /'--prot'[^]*Usage: chdb-server/ })
  t.throws(read('--user', 'analyst'), { message: /--user must be a name other than analyst/ })
  t.throws(read('--host', '0.0.0.0'), { message: /user default must have a password/ })
})

t.test('tells help and version from a start', async (t) => {
  t.equal(readOptions(['--help'], {}), 'help')
  t.equal(readOptions(['--version', '--port', 'x'], {}), 'version')
})

t.test('writes a line of JSON with the fields of pino, from its level on', async (t) => {
  const lines: string[] = []
  const logger = createLogger('warn', (line) => lines.push(line))

  logger.info({ port: 1 }, 'is listening')
  logger.warn({ err: Object.assign(new TypeError('no'), { code: 'X' }), file: 'a' }, 'could not')

  t.equal(lines.length, 1)
  t.match(JSON.parse(lines[0] ?? ''), {
    level: 40, time: Number, component: 'clickhouse', pid: process.pid, file: 'a', msg: 'could not', err: { type: 'TypeError', message: 'no', code: 'X', stack: /options/ }
  })
})

t.test('counts what comes again within a minute, and writes how often it came', async (t) => {
  const lines: string[] = []
  const logger = createLogger('info', (line) => lines.push(line), 20)

  for (const table of ['a', 'a', 'b', 'a']) logger.error({ table }, 'could not write')
  for (let i = 0; i < 2; i++) logger.info({}, 'is said each time')

  t.same(lines.map((line) => JSON.parse(line).msg), ['could not write', 'could not write', 'is said each time', 'is said each time'])
  await waitFor(() => lines.length === 5)
  t.match(JSON.parse(lines[4] ?? ''), { level: 50, repeated: 2, msg: 'could not write (repeated 2 times)' })
  logger.error({ table: 'a' }, 'could not write')
  t.equal(lines.length, 6, 'and is new afterwards')
})
