/**
 * Runs the tests, all of them or the files that are named: `npm test`. Arguments are those of `tap`. Exits as it does.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tapEnvironment } from './support/environments.ts'

const tap = spawn('tap', process.argv.slice(2), { env: tapEnvironment(), stdio: 'inherit' })
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => tap.kill(signal))
const [code] = await once(tap, 'exit') as [number | null]
process.exitCode = code ?? 1
