import path from 'node:path'
import { settings } from '../../platform/settings.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')

/** The environment of a run of the tests, in which hundreds of processes start: they keep what the engine compiled. */
export function testEnvironment (): NodeJS.ProcessEnv {
  return { ...process.env, NODE_COMPILE_CACHE: path.join(ROOT, '.tap', 'compile-cache') }
}

/** What the test runner and npm add to the environment; it would change what a started process does. */
const OF_THE_RUNNER = ['NODE_OPTIONS', 'npm_lifecycle_event']

/** The environment without settings of anyone who runs the tests, for a process that a test starts. */
export function withoutSettings (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) =>
    !(name in settings) && !name.startsWith('MILLRACE_') && !OF_THE_RUNNER.includes(name)))
}
