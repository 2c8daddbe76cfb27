/** What a program needs that starts the server as a process of its own. */
import path from 'node:path'

export { makeSpoolFolders, removeSpoolFolders } from './engine/body-spool.ts'
export { ANALYST_PROFILE } from './engine/profiles.ts'
export { digestPassword } from './http/authenticate.ts'

/** What is to be started, with the options that `--help` lists. */
export const MAIN = path.join(import.meta.dirname, `main${path.extname(import.meta.filename)}`)
