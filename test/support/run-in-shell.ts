/** Command lines that people paste into a shell. Where the machine has no curl, this file takes its place. */
import { execFile } from 'node:child_process'
import { parseArgs, promisify } from 'node:util'
import { PATIENCE_MS } from './wait-for.ts'

const STAND_IN = `command -v curl >/dev/null || curl () { '${process.execPath}' '${import.meta.filename}' "$@"; }`

/** @returns what it printed. Rejects when it fails. */
export async function runInShell (command: string): Promise<string> {
  const { stdout } = await promisify(execFile)('sh', ['-c', `${STAND_IN}\n${command}`])
  return stdout
}

async function send (): Promise<void> {
  const { values, positionals: [url = ''] } = parseArgs({
    allowPositionals: true,
    options: {
      request: { type: 'string', short: 'X' },
      header: { type: 'string', short: 'H', multiple: true, default: [] },
      data: { type: 'string', short: 'd' },
      user: { type: 'string', short: 'u' }
    }
  })
  const headers = new Headers(values.header.map((line): [string, string] => {
    const [name = '', ...value] = line.split(':')
    return [name, value.join(':').trim()]
  }))
  if (values.user !== undefined) headers.set('authorization', `Basic ${Buffer.from(values.user).toString('base64')}`)
  const { data: body = null, request: method = body === null ? 'GET' : 'POST' } = values
  const response = await fetch(url, { method, headers, body, signal: AbortSignal.timeout(PATIENCE_MS) })
  process.stdout.write(await response.text())
}

if (import.meta.main) await send()
