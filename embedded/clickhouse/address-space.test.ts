import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'

const MAIN = path.join(import.meta.dirname, 'main.ts')

t.test('says that the address space is limited, instead of how to install packages', async (t) => {
  if (process.platform !== 'linux') return t.comment('NOT RUN: the limit is one of Linux')
  const args = [MAIN, '--data-dir', t.testdir(), '--port', '0']
  const command = ['-c', 'ulimit -v 2000000 && exec "$0" "$@"', process.execPath, ...args]

  const ended = await promisify(execFile)('sh', command, { timeout: 60_000 })
    .then(() => null, (error: { code: number, stdout: string, stderr: string }) => error)

  t.equal(ended?.code, 1)
  t.match(ended?.stdout, '"limitBytes":2048000000')
  t.match(ended?.stderr, /the ClickHouse engine could not be loaded: its address space is limited to 2048000000 bytes \(ulimit -v/)
  t.notMatch(ended?.stderr, /npm ci/)
})
