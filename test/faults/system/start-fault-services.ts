import { startClickHouse } from '../../../deploy/local/services/start-clickhouse.ts'
import { type Service, type ServiceOptions } from '../../../deploy/local/processes/service.ts'
import { startNatsServer } from '../../../deploy/local/services/start-nats-server.ts'
import { startPostgres } from '../../../deploy/local/services/start-postgres.ts'
import { waitUntilIdle } from './wait-until-idle.ts'
import { type Supervise, type SupervisedPart } from './supervise.ts'

/** A service, and where it answers itself, past all proxies. */
export interface FaultService {
  part: SupervisedPart
  port: number
  url: string
}

/** Starts nats-server, ClickHouse and Postgres on free ports, as `npm start` does. */
export async function startFaultServices (
  dataDir: string, supervise: Supervise
): Promise<{ nats: FaultService, clickhouse: FaultService, postgres: FaultService }> {
  const keep = async (name: string, start: (options: ServiceOptions) => Promise<Service>): Promise<FaultService> => {
    // A service that is started again keeps the port of its first start, which its clients know.
    let address = { port: 0, url: '' }
    const part = await supervise(name, async (signal, onSpawn) => {
      const service = await start({ dataDir, port: address.port, signal, onSpawn })
      address = { port: service.port, url: service.url }
      return service
    })
    return { part, ...address }
  }
  const [nats, clickhouse, postgres] = await waitUntilIdle<[FaultService, FaultService, FaultService]>([
    keep('nats', startNatsServer),
    keep('clickhouse', async (options) =>
      await startClickHouse({ ...options, password: 'faults', analystPassword: 'analyst' })),
    keep('postgres', async (options) => await startPostgres({ ...options, password: 'faults' }))
  ])
  return { nats, clickhouse, postgres }
}
