#!/usr/bin/env node
/**
 * `npx chdb-server`: plain JavaScript, so that a Node that is too old can say so. In the repository the server is
 * TypeScript, which Node runs as it is; below `node_modules` Node refuses that, so the package has it in `dist/` too.
 */
import { existsSync } from 'node:fs'

/** The first version that has zstd, `execve` and TypeScript without a flag. */
const NEEDED = [22, 18]

const [major, minor] = process.versions.node.split('.').map(Number)
if (major < NEEDED[0] || (major === NEEDED[0] && minor < NEEDED[1])) {
  process.stderr.write(`chdb-server: needs Node ${NEEDED.join('.')} or newer, and this is ${process.version}\n`)
  process.exit(1)
}
const sources = new URL('./main.ts', import.meta.url)
await import(existsSync(sources) ? sources.href : new URL('./dist/main.js', import.meta.url).href)
