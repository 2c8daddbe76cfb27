import { jetstreamManager } from '@nats-io/jetstream'
import { Kvm, type KV, type KvOptions } from '@nats-io/kv'
import { type NatsConnection } from './connect-nats.ts'

/**
 * Opens a key-value bucket, makes it when it is missing, and brings its replicas to the given number: the client leaves
 * those of an existing bucket as they are, so one that was made on a single server would stay on one of three.
 *
 * @throws what JetStream says, for example while a cluster has no leader.
 */
export async function openBucket (
  connection: NatsConnection, name: string, options: Partial<KvOptions> & { replicas: number }
): Promise<KV> {
  const bucket = await new Kvm(connection).create(name, options)
  const manager = await jetstreamManager(connection)
  const { config } = await manager.streams.info(`KV_${name}`)
  if (config.num_replicas !== options.replicas) {
    await manager.streams.update(config.name, { ...config, num_replicas: options.replicas })
  }
  return bucket
}
