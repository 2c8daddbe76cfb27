import { pickFreePort } from '../../deploy/local/processes/pick-free-port.ts'

/** A port of 127.0.0.1 on which nobody listens. */
export const freePort = pickFreePort
