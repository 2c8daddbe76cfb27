import path from 'node:path'
import { pathToFileURL } from 'node:url'

const ROOT = path.join(import.meta.dirname, '..', '..')

/**
 * The environment of a run of the whole suite, in which two hundred processes start: they keep what the engine
 * compiled, and the runner does not note what they load.
 */
export function tapEnvironment (): NodeJS.ProcessEnv {
  const quietRunner = pathToFileURL(path.join(import.meta.dirname, 'quiet-runner-hook.js')).href
  return {
    ...process.env,
    NODE_COMPILE_CACHE: path.join(ROOT, '.tap', 'compile-cache'),
    NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --import=${quietRunner}`.trim()
  }
}
