import t from 'tap'
import { type ActiveVersion, createReadActive } from './active-definitions.ts'
import type { Logger } from '../../platform/logger.ts'

const version = (name: string, text: string): ActiveVersion =>
  ({ project_id: 1, name, version: 1, id: `${name} ${text}`, text })

t.test('what does not compile leaves a project what it had, and a new process the others', async (t) => {
  const errors: string[] = []
  const logger = { error: ({ name }: { name: string }, msg: string) => errors.push(`${name}: ${msg}`) } as unknown as Logger
  let stored: ActiveVersion[] = []
  type Read = () => Promise<ReadonlyMap<number, string[]>>
  const createProcess = (): Read => createReadActive<ActiveVersion, string, string[]>({
    what: 'a rule',
    read: async () => stored,
    compile: (text) => {
      if (text === 'unknown') throw new Error('an action of a newer release')
      return text
    },
    toDefinitions: (versions) => versions.map(({ compiled }) => compiled),
    isSame: (definitions, before) => definitions.join() === before.join()
  }, logger)
  const old = createProcess()

  stored = [version('a', 'drop a'), version('b', 'drop b')]
  t.same(await old(), new Map([[1, ['drop a', 'drop b']]]))
  stored = [version('a', 'drop a2'), version('b', 'unknown')]
  t.same(await old(), new Map([[1, ['drop a', 'drop b']]]))
  t.same(await createProcess()(), new Map([[1, ['drop a2']]]))
  t.same(errors, [
    'b: a rule does not compile; the project keeps the previous ones', 'b: a rule does not compile; the project runs without it'
  ])

  stored = [version('b', 'unknown')]
  t.same(await createProcess()(), new Map(), 'nothing is enforced of a project whose only rule it is')
})
