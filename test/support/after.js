/** Runs once after the tests of a run; see `before.js`. */
import { runUninstrumented } from './run-uninstrumented.js'

if (process.env.MILLRACE_TEST_NO_SERVICES !== '1') process.exitCode = runUninstrumented('services-for-runner.ts', 'stop', process.ppid)
