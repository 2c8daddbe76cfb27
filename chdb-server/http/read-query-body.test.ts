import { chmodSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import t from 'tap'
import { makeSpoolFolders, spoolFolders } from '../engine/body-spool.ts'
import { formType, readForm } from './read-form.ts'
import { findInsertData, readBody } from './read-query-body.ts'

t.test('finds head, settings, format and rows of an insert', async (t) => {
  const cases: Array<[string, string, string, string, string]> = [
    ['INSERT INTO t FORMAT JSONEachRow', 'INSERT INTO t ', '', 'JSONEachRow', ''],
    ['INSERT INTO t FORMAT CSV\n1,2', 'INSERT INTO t ', '', 'CSV', '1,2'],
    ['insert into t(a, b) format TSV \t\r\n 1\t2', 'insert into t(a, b) ', '', 'TSV', ' 1\t2'],
    ['INSERT INTO t FORMAT CSV 1,2', 'INSERT INTO t ', '', 'CSV', '1,2'],
    ['INSERT INTO t FORMAT CSV;\n1', 'INSERT INTO t ', '', 'CSV', '1'],
    ['INSERT INTO t VALUES (1), (2)', 'INSERT INTO t ', '', 'Values', ' (1), (2)'],
    ['INSERT INTO t (a) VALUES', 'INSERT INTO t (a) ', '', 'Values', ''],
    ['INSERT INTO `values` VALUES (1)', 'INSERT INTO `values` ', '', 'Values', ' (1)'],
    ['INSERT INTO db.t (format) FORMAT Native', 'INSERT INTO db.t (format) ', '', 'Native', ''],
    ['INSERT INTO t SETTINGS a = 1, b = \'x\' FORMAT CSV\n1', 'INSERT INTO t ', "SETTINGS a = 1, b = 'x' ", 'CSV', '1'],
    ['/* c */ INSERT INTO TABLE t -- FORMAT X\n FORMAT CSV\n1', '/* c */ INSERT INTO TABLE t -- FORMAT X\n ', '', 'CSV', '1'],
    ["INSERT INTO FUNCTION null('a UInt8') FORMAT CSV\n\n1", "INSERT INTO FUNCTION null('a UInt8') ", '', 'CSV', '\n1']
  ]
  for (const [text, head, settings, format, rows] of cases) {
    const split = findInsertData(text)
    t.same(split && {
      head: text.slice(0, split.headEnd),
      settings: split.settings,
      format: split.format,
      rows: text.slice(split.dataStart)
    }, { head, settings, format, rows }, text)
  }
})

t.test('leaves every other statement alone', async (t) => {
  for (const text of ['SELECT 1 FORMAT CSV', 'INSERT INTO t SELECT 1', 'INSERT INTO t (a) WITH 1 AS x SELECT x', 'INSERT INTO t', '', 'INSERT INTO t FORMAT']) {
    t.equal(findInsertData(text), undefined, text)
  }
})

t.test('refuses to read files of this machine', async (t) => {
  t.throws(() => findInsertData("INSERT INTO t FROM INFILE '/etc/passwd' FORMAT CSV"), { code: 344 })
})

t.test('never reads the rows', async (t) => {
  const split = findInsertData(`INSERT INTO t FORMAT RowBinary\n${"'\u0000\u00ff;/*".repeat(10)}`)

  t.match(split, { format: 'RowBinary' })
})

const request = (body: string, type?: string): IncomingMessage =>
  Object.assign(Readable.from([Buffer.from(body)]), { headers: { 'content-type': type } }) as unknown as IncomingMessage
const field = (name: string, value: string): string => `--7Ka91Qe\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`

const inPieces = (body: string, bytes: number): IncomingMessage => {
  const starts = Array.from({ length: Math.ceil(body.length / bytes) }, (_, i) => i * bytes)
  const pieces = starts.map((start) => Buffer.from(body.slice(start, start + bytes)))
  return Object.assign(Readable.from(pieces), { headers: {} }) as unknown as IncomingMessage
}

t.test('looks for the rows of an insert once, in however many pieces a body comes', async (t) => {
  const body = `INSERT INTO t (${'a,'.repeat(500_000)}`
  const cpuOf = async (bytes: number): Promise<number> => {
    const before = process.cpuUsage()
    t.match(await readBody(inPieces(body, bytes), { queryInUrl: '' }, 2_000_000), { kind: 'statement', text: body })
    return process.cpuUsage(before).user / 1000
  }

  const whole = await cpuOf(body.length)
  const pieces = await cpuOf(4096)
  t.ok(pieces < 10 * whole, `${pieces} ms in pieces, ${whole} ms as a whole`)
})

t.test('refuses a statement beyond its limit while it reads it, the URL included', async (t) => {
  const long = inPieces('SELECT '.padEnd(1_000_000), 1000)
  await t.rejects(readBody(long, { queryInUrl: '' }, 10_000), { code: 229 })
  t.equal(long.readableEnded, false)
  await t.rejects(readBody(request('1'), { queryInUrl: 'SELECT '.padEnd(10_000) }, 10_000), { code: 229 })
})

t.test('reads the fields of a form, whatever stands in them', async (t) => {
  const value = "['a@b.com','--b','x\r\n\r\ny', 'ü\u0000']"
  const body = field('query', 'SELECT {x:Array(String)}') + field('param_x', value) + field('empty', '') + '--7Ka91Qe--\r\n'
  const query = new URLSearchParams({ database: 'shop' })
  await readForm(request(body), 'Multipart/Form-Data; charset=UTF-8; boundary="7Ka91Qe"', query, 1000)

  t.same([...query], [['database', 'shop'], ['query', 'SELECT {x:Array(String)}'], ['param_x', value], ['empty', '']])
})

t.test('refuses a form that is cut off, names nothing, or brings a file', async (t) => {
  const file = '--7Ka91Qe\r\nContent-Disposition: form-data; name="ids"; filename="ids.csv"\r\n\r\n1\r\n--7Ka91Qe--\r\n'
  const cases: Array<[string, string, number]> = [
    ['no form at all', '; boundary=7Ka91Qe', 36], [field('query', 'SELECT 1'), '; boundary=7Ka91Qe', 36],
    ['--7Ka91Qe\r\nContent-Disposition: form-data\r\n\r\nx\r\n--7Ka91Qe--', '; boundary=7Ka91Qe', 36],
    [field('query', 'SELECT 1') + '--7Ka91Qe--', '', 36], [file, '; boundary=7Ka91Qe', 344]
  ]
  for (const [body, boundary, code] of cases) {
    await t.rejects(readForm(request(body), `multipart/form-data${boundary}`, new URLSearchParams(), 1000), { code }, body)
  }
})

t.test('knows a form by its type', async (t) => {
  t.equal(formType(request('', 'Multipart/Form-Data; boundary="a b"')), 'Multipart/Form-Data; boundary="a b"')
  t.equal(formType(request('', 'text/plain')), undefined)
  t.equal(formType(request('')), undefined)
})

t.test('keeps bodies in shared memory only in a folder of its own user, closed to others', async (t) => {
  const dataDir = t.testdir()
  const [disk, memory] = spoolFolders(dataDir)
  t.teardown(() => rmSync(memory, { recursive: true, force: true }))
  t.same(makeSpoolFolders(dataDir), [disk, memory])
  t.same(makeSpoolFolders(dataDir), [disk, memory], 'and finds it again')
  chmodSync(memory, 0o777)
  t.same(makeSpoolFolders(dataDir), [disk, disk])
  rmSync(memory, { recursive: true })
  mkdirSync(`${dataDir}/other`, { mode: 0o700 })
  symlinkSync(`${dataDir}/other`, memory)
  t.same(makeSpoolFolders(dataDir), [disk, disk])
})
