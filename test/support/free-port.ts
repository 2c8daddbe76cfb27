import { pickFreePort } from '../../deploy/local/services/pick-free-port.ts'

/** A port of 127.0.0.1 on which nobody listens. */
export const freePort = pickFreePort
