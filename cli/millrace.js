#!/usr/bin/env node
/**
 * `npx millrace`: plain JavaScript that any Node from 20 on runs. The commands are TypeScript for the Node that comes
 * with `npm install`, so an older one hands over to it.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'

/** The first version whose type stripping reads every source here. */
const NEEDED_MAJOR = 26

const main = path.join(import.meta.dirname, 'main.ts')

if (Number(process.versions.node.split('.')[0]) >= NEEDED_MAJOR) {
  await import('./main.ts')
} else {
  const node = findBundledNode(import.meta.dirname)
  if (node === undefined) {
    process.stderr.write('millrace: the Node runtime that comes with "npm install" is missing; run npm install\n')
    process.exit(1)
  }
  const child = spawn(node, [main, ...process.argv.slice(2)], { stdio: 'inherit' })
  // A Ctrl-C reaches the child by itself; the others are for us alone.
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  process.on('SIGINT', () => {})
  child.on('error', (error) => {
    process.stderr.write(`millrace: ${node} could not be run: ${error.message}\n`)
    process.exit(1)
  })
  child.on('exit', (code, signal) => process.exit(code ?? (signal === null ? 1 : 128)))
}

/** The runtime lies beside the other packages: in our own folder, or in the one that we are installed into. */
function findBundledNode (folder) {
  for (let at = folder; ; at = path.dirname(at)) {
    const node = path.join(at, 'node_modules', '.bin', 'node')
    if (existsSync(node)) return node
    if (at === path.dirname(at)) return undefined
  }
}
