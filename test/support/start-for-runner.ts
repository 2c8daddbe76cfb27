/** Starts the process that holds the services of a run. Argument: the pid of the runner. */
import { startSharedServices } from './shared-services.ts'

await startSharedServices(Number(process.argv[2]))
