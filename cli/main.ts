import { describeVersion } from '../schema/version.ts'
import { PROCESSES } from './commands/processes.ts'

const args = process.argv.slice(2)
const started = args.length === 1 ? PROCESSES[args[0]!] : undefined

// A process that runs for years keeps no command line in memory, and a number needs none.
if (started !== undefined) await started[1]()
else if (args.length === 1 && (args[0] === '--version' || args[0] === '-V')) process.stdout.write(`${describeVersion()}\n`)
else await runCommand()

async function runCommand (): Promise<void> {
  // An API process that runs an import may be killed: nobody else would end the import with it.
  process.once('disconnect', () => process.exit(1))
  // As SIGPIPE ends it, when nobody reads on, such as after "| head"; messages that nobody reads end nothing.
  process.stdout.on('error', (error) => {
    if ('code' in error && error.code === 'EPIPE') process.exit(141)
    process.stderr.write(`millrace: the output cannot be written: ${error.message}\n`, () => process.exit(1))
  })
  process.stderr.on('error', () => {})
  const { runCli } = await import('./run-cli.ts')
  const world = { env: process.env, stdout: process.stdout, stderr: process.stderr, now: Date.now }
  const exitCode = await runCli(args, world)
  // Exits once the output is written: a connection to a service that hangs would keep the process alive for minutes.
  process.stdout.write('', (error) => { if (error == null) process.stderr.write('', () => process.exit(exitCode)) })
}
