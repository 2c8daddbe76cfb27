import t from 'tap'
import { startStackOnSharedStores, withAnalyst } from '../start-stack.ts'
import { createContractClient } from './contract-client.ts'
import { walkBeyondContract } from './walk-beyond-contract.ts'
import { walkCapture, walkDecide } from './walk-capture.ts'
import { walkEventDefinitions, walkPropertyDefinitions } from './walk-definitions.ts'
import { walkExperiments } from './walk-experiments.ts'
import { walkAccount, walkManagement } from './walk-management.ts'
import { walkResources } from './walk-resources.ts'

/**
 * Walks the contract (docs/reference/contract/service.md), table by table, over HTTP to the whole system. Names of
 * tests begin with the contract's sections; every answer is compared with the OpenAPI document as well.
 *
 * One system for all, because starting it takes longer than the rest. Flags first, which are to be the only ones of
 * the project; captured events last, whose definitions would come between those that are planted.
 */
const stack = await startStackOnSharedStores(t, await withAnalyst(t))
const system = { stack, client: await createContractClient(stack) }

await walkDecide(t, system)
await walkExperiments(t, system)
await walkResources(t, system)
await walkPropertyDefinitions(t, system)
await walkEventDefinitions(t, system)
await walkBeyondContract(t, system)
await walkManagement(t, system)
await walkAccount(t, system)
await walkCapture(t, system)

t.test('Every operation of the OpenAPI document was tried, and answered as it says', async (t) => {
  t.same(system.client.openapi.untried(), [])
})
