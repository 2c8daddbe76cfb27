/**
 * Loaded before anything else into each process of a run of the tests, and so before the runner's own hook, which
 * notes every file that a process loads and reads its source map, for coverage and for watching. The runs that
 * `environments.ts` is for do neither, so the hook of the runner is left out: 0.07 of 0.25 s of CPU of a test that does
 * nothing, 0.4 s more where the API is loaded, 0.04 of 0.09 s of an empty process that a test starts.
 */
import module from 'node:module'

const HOOK_OF_RUNNER = '/@tapjs/processinfo/dist/esm/import.mjs'

// A test also starts an old Node of the machine, which has no such hooks, nor that of the runner.
const hooks = module.registerHooks?.({
  resolve (specifier, context, nextResolve) {
    if (!specifier.endsWith(HOOK_OF_RUNNER)) return nextResolve(specifier, context)
    hooks.deregister()
    return { url: 'data:text/javascript,', shortCircuit: true }
  }
})
