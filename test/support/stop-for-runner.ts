/** Ends the services of a run and waits until they are gone. Argument: the pid of the runner. */
import { setTimeout as delay } from 'node:timers/promises'
import { readProcessIdentity } from '../../embedded/supervisor/processes/recorded-processes.ts'
import { readServicesAddress } from './shared-services.ts'

const STOP_TIMEOUT_MS = 20_000

const address = readServicesAddress(Number(process.argv[2]))
if (address !== undefined) {
  process.kill(address.pid, 'SIGTERM')
  const deadline = Date.now() + STOP_TIMEOUT_MS
  while (await readProcessIdentity(address.pid) !== undefined) {
    if (Date.now() > deadline) throw new Error('the services of the tests did not end')
    await delay(20)
  }
}
