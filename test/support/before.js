/**
 * Runs once before the tests of a run. The parent of this process is the runner, and the services live as long.
 *
 * JavaScript, and the work in a process of its own: until the runner has built its set of plugins, which is in the
 * first run of a clone, it loads the scripts before and after the tests through a TypeScript compiler that we do not
 * use and that does not know our settings.
 */
import { runUninstrumented } from './run-uninstrumented.js'

if (process.env.MILLRACE_TEST_NO_SERVICES !== '1') process.exitCode = runUninstrumented('services-for-runner.ts', 'start', process.ppid)
