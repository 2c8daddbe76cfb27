/** Runs once after the tests of a run; see `before.js`. */
import { runUninstrumented } from './run-uninstrumented.js'

process.exitCode = runUninstrumented('stop-for-runner.ts', process.ppid)
