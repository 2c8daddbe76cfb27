import { connect } from 'node:net'
import { pickFreePort } from '../../embedded/supervisor/ports.ts'

/** A port of 127.0.0.1 on which nobody listens. */
export const freePort = pickFreePort

/** A number of distinct ports. */
export async function freePorts (count: number): Promise<number[]> {
  const ports: number[] = []
  while (ports.length < count) ports.push(await pickFreePort())
  return ports
}

/**
 * Writes text to a port of this machine and reads until the other side ends the connection: for requests that clients
 * of HTTP would repair before they send them.
 */
export async function sendRaw (port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.write(text)
  return Buffer.concat(await socket.toArray() as Buffer[]).toString()
}
