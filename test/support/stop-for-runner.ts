/** Ends the services of a run and waits until they are gone. Argument: the pid of the runner. */
import { stopSharedServices } from './shared-services.ts'

await stopSharedServices(Number(process.argv[2]))
