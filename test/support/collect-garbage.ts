import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')

/** Collects all garbage now. Tests of memory need it before and after: other tests in the process leave some, too. */
export const collectGarbage = runInNewContext('gc') as () => void
