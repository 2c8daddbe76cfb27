#!/usr/bin/env node
/**
 * `npx millrace`: plain JavaScript that any Node from 20 on runs. The commands are TypeScript for the Node that comes
 * with `npm install`, in the package JavaScript in `dist/`; an older Node hands over to that one.
 */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { constants } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

/** The first version that runs every source here. */
const NEEDED_MAJOR = 24

const sources = path.join(import.meta.dirname, 'main.ts')
const main = existsSync(sources) ? sources : path.join(import.meta.dirname, '..', 'dist', 'cli', 'main.js')

if (Number(process.versions.node.split('.')[0]) >= NEEDED_MAJOR) {
  await import(pathToFileURL(main).href)
} else {
  const node = findBundledNode()
  if (node === undefined) {
    process.stderr.write(`millrace: needs Node ${NEEDED_MAJOR} or newer, and this is ${process.version}. The one that comes ` +
      'with it is not installed: run "npm install" without --omit=optional\n')
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
  // As shells do: 130 for SIGINT, 143 for SIGTERM.
  child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]))
}

/** The runtime is an optional package for this platform, wherever npm has put it. */
function findBundledNode () {
  const require = createRequire(import.meta.url)
  for (const name of ['node', 'node-bin'].map((prefix) => `${prefix}-${process.platform}-${process.arch}`)) {
    try {
      const manifest = require.resolve(`${name}/package.json`)
      const node = path.join(path.dirname(manifest), JSON.parse(readFileSync(manifest, 'utf8')).bin.node)
      if (existsSync(node)) return node
    } catch {
      // Not the package of this platform.
    }
  }
  return undefined
}
