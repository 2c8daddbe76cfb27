import { connect } from 'node:net'

/**
 * Writes text to a port of this machine and reads until the other side ends the connection: for requests that clients
 * of HTTP would repair before they send them.
 */
export async function sendRaw (port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.write(text)
  return Buffer.concat(await socket.toArray() as Buffer[]).toString()
}
