/**
 * Loaded before anything else into each process of a run of the tests. The runner notes every file that a process
 * loads and reads its source map, for coverage and for watching, which the runs that `tap-environment.ts` is for do
 * not do: 0.4 s of CPU a process that loads the API. This pattern makes it note none.
 */
process.env._TAPJS_PROCESSINFO_EXCLUDE_ = '/./'
