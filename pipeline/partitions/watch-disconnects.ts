import { type NatsConnection } from '../../platform/nats/connect-nats.ts'

/** Registers what is to be called when the connection is lost. Returns how to take that back. */
export type OnDisconnect = (listener: () => void) => () => void

/** Watches a connection for as long as it lives. */
export function watchDisconnects (connection: NatsConnection): OnDisconnect {
  const listeners = new Set<() => void>()
  void (async () => {
    for await (const { type } of connection.status()) {
      if (type === 'disconnect') for (const listener of [...listeners]) listener()
    }
  })()
  return function onDisconnect (listener) {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }
}
