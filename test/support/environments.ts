import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { settings } from '../../platform/settings.ts'

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

/** What the test runner and npm add to the environment; it would change what a started process does. */
const OF_THE_RUNNER = ['NODE_OPTIONS', 'npm_lifecycle_event']

/** The environment without settings of anyone who runs the tests, for a process that a test starts. */
export function withoutSettings (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) =>
    !(name in settings) && !name.startsWith('MILLRACE_') && !OF_THE_RUNNER.includes(name)))
}
