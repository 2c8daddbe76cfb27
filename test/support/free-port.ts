import { pickFreePort } from '../../deploy/local/ports.ts'

/** A port of 127.0.0.1 on which nobody listens. */
export const freePort = pickFreePort

/** So many ports, each another. */
export async function freePorts (count: number): Promise<number[]> {
  const ports: number[] = []
  while (ports.length < count) ports.push(await pickFreePort())
  return ports
}
