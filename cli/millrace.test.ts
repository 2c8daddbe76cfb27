import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'

const run = promisify(execFile)
const BIN = path.join(import.meta.dirname, 'millrace.js')

// The runner instruments what its tests start; this must start as it does at a user's.
const env = { ...process.env, NODE_OPTIONS: '' }

/** Node runtimes of this machine, other than the one that npm brought. */
function otherNodes (): string[] {
  return (process.env['PATH'] ?? '').split(path.delimiter)
    .filter((folder) => !folder.includes('node_modules'))
    .map((folder) => path.join(folder, 'node'))
    .filter((file) => existsSync(file))
}

for (const node of [process.execPath, ...otherNodes()]) {
  t.test(`runs with ${node === process.execPath ? 'the Node that npm brought' : 'the Node of the machine'}`, async (t) => {
    const help = await run(node, [BIN, '--help'], { env })

    for (const group of ['projects', 'users', 'keys', 'dead-letters']) t.match(help.stdout, new RegExp(`^ +${group} `, 'm'))
    await t.rejects(run(node, [BIN, 'nonsense'], { env }), { code: 2, stderr: /unknown command/ })
  })
}
