import { spawnSync } from 'node:child_process'
import path from 'node:path'

/**
 * Runs a script of this folder without what the test runner adds to every process that is started below it: a
 * measurement of coverage that slows it down and a loader that it does not need.
 *
 * @param {string} script  Name of the file.
 * @param {...(string | number)} more  Its arguments.
 * @returns {number} the exit code.
 */
export function runUninstrumented (script, ...more) {
  // The runner changes the environment when a process is spawned, so it has to be undone in that process.
  const args = ['-u', 'NODE_OPTIONS', process.execPath, path.join(import.meta.dirname, script), ...more.map(String)]
  return spawnSync('env', args, { stdio: 'inherit' }).status ?? 1
}
