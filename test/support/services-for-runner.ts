/**
 * Starts the process that holds the services of a run, or ends it and waits. Arguments: `start` or `stop`; the pid of
 * the runner.
 */
import { startSharedServices, stopSharedServices } from './shared-services.ts'

const [, , wanted, runnerPid] = process.argv
await (wanted === 'start' ? startSharedServices : stopSharedServices)(Number(runnerPid))
